// Opening, listing and reading small files with bounded memory; large files are mapped_file.h's.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_FILE_H_
#define OPST_IO_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opst {

// Owns an open file descriptor; -1 = none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // Returns the error number of close(2), 0 when all went well or nothing was open.
  int Close();

 private:
  int fd_ = -1;
};

enum class PathKind { kMissing, kFile, kFolder, kOther };
// Follows symbolic links. Throws kIo when the answer cannot be known (no permission, a loop).
PathKind KindOf(const std::string& path);

// What an open file is now. Throws kIo when it is not a regular file (a folder, pipe or device).
struct FileStatus {
  uint64_t num_bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  bool operator==(const FileStatus&) const = default;
};
FileStatus StatusOf(const FileDescriptor& descriptor, const std::string& path);

// Opens a regular file for reading; a pipe is not waited for. Throws kIo.
FileDescriptor OpenRegularFile(const std::string& path);

// The whole content. Throws kIo when the file is longer than `max_bytes`.
std::string ReadWholeFile(const std::string& path, uint64_t max_bytes);

// Names (without the folder) of the regular files in `folder` that end in `suffix`, sorted by
// bytes, links followed, hidden files left out. Throws kIo for more than 100,000 entries.
std::vector<std::string> ListFiles(const std::string& folder, std::string_view suffix);

std::string JoinPath(std::string_view folder, std::string_view name);
// The folder that holds `path`, "." when the path names none.
std::string ParentFolder(const std::string& path);
// The last component of `path`.
std::string FileName(const std::string& path);

// Text of an errno value, for the facts of an error.
std::string ErrnoText(int error_number);

}  // namespace opst

#endif  // OPST_IO_FILE_H_
