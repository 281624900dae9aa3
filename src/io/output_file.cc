// A file that appears under its name only when it is complete and on disk; knows no format.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/output_file.h"

#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace opst {
namespace {

// Pieces below this size are gathered; larger ones are written directly.
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr int kMaxNames = 100;

// Renames without replacing, also on file systems that cannot do it in one step.
int RenameToFreeName(const char* from, const char* to) {
  if (::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (::access(to, F_OK) == 0) return EEXIST;
  return ::rename(from, to) == 0 ? 0 : errno;
}

bool IsLink(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

}  // namespace

OutputFile::OutputFile(std::string path, IfExists if_exists)
    : path_(std::move(path)), if_exists_(if_exists) {
  OPST_CHECK_ARG(!path_.empty(), "output_file", "the output must have a name", "an empty one");
  const PathKind kind = KindOf(path_);
  OPST_CHECK_IO(kind == PathKind::kMissing || kind == PathKind::kFile, path_,
                "output must be a regular file",
                kind == PathKind::kFolder ? "a folder" : "a device");
  OPST_CHECK_IO(kind == PathKind::kMissing || if_exists_ == IfExists::kReplace, path_,
                "output must not exist yet", "an existing file (--force replaces it)");
  OPST_CHECK_IO(kind == PathKind::kFile || !IsLink(path_), path_, "output must be a regular file",
                "a symbolic link to nothing");
  const std::string folder = ParentFolder(path_);
  OPST_CHECK_IO(KindOf(folder) == PathKind::kFolder, path_, "the output's folder must exist",
                Concat("nothing or no folder at ", folder));
  descriptor_ = FileDescriptor(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  if (descriptor_.is_open()) return;
  const int error_number = MakeTemporary([&](const std::string& name) {
    descriptor_ =
        FileDescriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    return descriptor_.is_open() ? 0 : errno;
  });
  OPST_CHECK_IO(error_number == 0, temporary_path_, "temporary file must open for writing",
                ErrnoText(error_number));
}

// A killed process may have left a name behind and its number may come back, so several are tried.
template <typename Make>
int OutputFile::MakeTemporary(Make make) {
  int error_number = EEXIST;
  for (int i = 0; i < kMaxNames && error_number == EEXIST; ++i) {
    temporary_path_ = Concat(path_, ".tmp-", ::getpid(), "-", i);
    error_number = make(temporary_path_);
  }
  return error_number;
}

OutputFile::~OutputFile() {
  if (!is_committed_ && !temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

void OutputFile::Reserve(uint64_t num_bytes) {
  if (num_bytes == 0) return;
  if (num_bytes > static_cast<uint64_t>(INT64_MAX)) ThrowWriteFailed(EFBIG, num_bytes);
  int status;
  do {
    status = ::fallocate(descriptor_.get(), 0, 0, static_cast<off_t>(num_bytes));
  } while (status != 0 && errno == EINTR);
  if (status != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    ThrowWriteFailed(errno, num_bytes);
  }
}

void OutputFile::Write(std::span<const std::byte> bytes) {
  if (pending_.size() + bytes.size() > kBufferBytes) Flush();
  if (bytes.size() >= kBufferBytes) {
    WriteFully(flushed_bytes_, bytes);
    flushed_bytes_ += bytes.size();
  } else {
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  }
}

void OutputFile::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  Flush();
  OPST_CHECK_ARG(offset <= flushed_bytes_ && bytes.size() <= flushed_bytes_ - offset, "output_file",
                 "WriteAt must stay inside what is written", "[", offset, ", +", bytes.size(),
                 "] of ", flushed_bytes_, " bytes");
  WriteFully(offset, bytes);
}

void OutputFile::Flush() {
  WriteFully(flushed_bytes_, pending_);
  flushed_bytes_ += pending_.size();
  pending_.clear();
}

void OutputFile::WriteFully(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put =
        ::pwrite(descriptor_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) ThrowWriteFailed(put < 0 ? errno : EIO, bytes.size());
    offset += static_cast<uint64_t>(put);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void OutputFile::Commit() {
  Flush();
  if (::fsync(descriptor_.get()) != 0) ThrowWriteFailed(errno, flushed_bytes_);
  if (temporary_path_.empty()) {
    const std::string handle = Concat("/proc/self/fd/", descriptor_.get());
    const int named = MakeTemporary([&](const std::string& name) {
      const int status =
          ::linkat(AT_FDCWD, handle.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
      return status == 0 ? 0 : errno;
    });
    if (named != 0) {
      const std::string wanted = std::exchange(temporary_path_, {});  // not ours to remove
      ThrowIo(wanted, "finished file must get its temporary name", ErrnoText(named));
    }
  }
  if (const int error_number = descriptor_.Close(); error_number != 0) {
    ThrowWriteFailed(error_number, flushed_bytes_);
  }
  int error_number = 0;
  if (if_exists_ == IfExists::kReplace) {
    error_number = ::rename(temporary_path_.c_str(), path_.c_str()) == 0 ? 0 : errno;
  } else {
    error_number = RenameToFreeName(temporary_path_.c_str(), path_.c_str());
  }
  OPST_CHECK_IO(error_number == 0, path_, "finished file must get its name",
                ErrnoText(error_number));
  is_committed_ = true;
  // The new name is on disk once its folder is; file systems without this are left alone.
  const FileDescriptor folder(
      ::open(ParentFolder(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) ::fsync(folder.get());
}

void OutputFile::ThrowWriteFailed(int error_number, uint64_t num_bytes) const {
  ThrowIo(path_, "disk must take what is written",
          Concat(ErrnoText(error_number), " while writing ", num_bytes, " bytes to ",
                 temporary_path_.empty() ? "a temporary file" : temporary_path_));
}

}  // namespace opst
