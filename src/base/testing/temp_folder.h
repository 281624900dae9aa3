// A folder with a name of its own that removes itself; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_TESTING_TEMP_FOLDER_H_
#define OPST_BASE_TESTING_TEMP_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace opst {

class TempFolder {
 public:
  explicit TempFolder(const std::string& parent = ::testing::TempDir())
      : path_(parent + "/opst-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary folder " << path_;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file, a new one if the name exists, and returns its path. (Cutting the old one would
  // make ext4 wait for the disk each time.)
  std::string Write(std::string_view name, std::string_view content) const {
    std::filesystem::remove(File(name));
    std::ofstream stream(File(name), std::ios::binary | std::ios::trunc);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!stream.flush()) ADD_FAILURE() << "could not write " << File(name);
    return File(name);
  }
  size_t NumFiles() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++count;
    return count;
  }

 private:
  std::string path_;
};

}  // namespace opst

#endif  // OPST_BASE_TESTING_TEMP_FOLDER_H_
