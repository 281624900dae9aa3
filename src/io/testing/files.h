// Helpers for tests that need files: a folder that removes itself, raw safetensors bytes, expected
// errors.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_TESTING_FILES_H_
#define OPST_IO_TESTING_FILES_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

#include "opst/error.h"

namespace opst::testing {

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

// Header length, header and `data` as they stand in a safetensors file; nothing is checked.
inline std::string RawSafetensors(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 255);
  }
  return bytes.append(header).append(data);
}

// Memory this process occupies now, mapped files included.
inline size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// `action` must throw an opst::Error of this kind whose text holds all `parts`.
template <typename Action>
void ExpectError(ErrorKind kind, std::initializer_list<std::string_view> parts, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    for (const std::string_view part : parts) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(std::string(part)));
    }
    return;
  }
  ADD_FAILURE() << "no error was thrown";
}

template <typename Action>
void ExpectIoError(std::initializer_list<std::string_view> parts, Action&& action) {
  ExpectError(ErrorKind::kIo, parts, std::forward<Action>(action));
}

}  // namespace opst::testing

#endif  // OPST_IO_TESTING_FILES_H_
