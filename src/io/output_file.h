// A file that appears under its name only when it is complete and on disk; knows no format.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_OUTPUT_FILE_H_
#define OPST_IO_OUTPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"

namespace opst {

enum class IfExists { kRefuse, kReplace };

// Writes to a file without a name in the same folder, which is gone when the process ends in any
// way; Commit names it "<path>.tmp-<process>-<n>" and renames that. Where the file system has no
// such files, the temporary name is there from the start and only the destructor removes it.
// Without Commit an older file of the same name is never touched. Not thread safe.
class OutputFile {
 public:
  // Throws kIo when `path` exists and may not be replaced, is no regular file, or is a link to
  // nothing; kInvalidArgument when it is empty.
  explicit OutputFile(std::string path, IfExists if_exists = IfExists::kRefuse);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  // Empty while the file has no name.
  const std::string& temporary_path() const { return temporary_path_; }

  // Takes disk space for the whole file now, so that a full disk shows at the start. The file must
  // then become at least this long. File systems that cannot do it are left alone.
  void Reserve(uint64_t num_bytes);
  // Appends; small pieces are gathered into larger writes. Throws kIo (disk full, quota, ...).
  void Write(std::span<const std::byte> bytes);
  // Overwrites what Write has written before.
  void WriteAt(uint64_t offset, std::span<const std::byte> bytes);
  // Bytes written so far.
  uint64_t position() const { return flushed_bytes_ + pending_.size(); }
  // Data and name are on disk when this returns. Nothing may be called afterwards.
  void Commit();

 private:
  // Calls make(name) with temporary names until one is free; the error number of the last call.
  template <typename Make>
  int MakeTemporary(Make make);
  void Flush();
  void WriteFully(uint64_t offset, std::span<const std::byte> bytes);
  [[noreturn]] void ThrowWriteFailed(int error_number, uint64_t num_bytes) const;

  std::string path_;
  IfExists if_exists_;
  std::string temporary_path_;
  FileDescriptor descriptor_;
  std::vector<std::byte> pending_;
  uint64_t flushed_bytes_ = 0;
  bool is_committed_ = false;
};

}  // namespace opst

#endif  // OPST_IO_OUTPUT_FILE_H_
