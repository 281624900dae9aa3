// Opening, listing and reading small files with bounded memory; large files are mapped_file.h's.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/check.h"

namespace opst {
namespace {

constexpr size_t kMaxFolderEntries = 100'000;

}  // namespace

int FileDescriptor::Close() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return 0;
  return ::close(fd) == 0 ? 0 : errno;
}

std::string ErrnoText(int error_number) { return std::generic_category().message(error_number); }

PathKind KindOf(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::kMissing;
    ThrowIo(path, "must be reachable", ErrnoText(errno));
  }
  if (S_ISREG(status.st_mode)) return PathKind::kFile;
  return S_ISDIR(status.st_mode) ? PathKind::kFolder : PathKind::kOther;
}

FileStatus StatusOf(const FileDescriptor& descriptor, const std::string& path) {
  struct stat status;
  OPST_CHECK_IO(::fstat(descriptor.get(), &status) == 0, path, "file must have a status",
                ErrnoText(errno));
  OPST_CHECK_IO(S_ISREG(status.st_mode), path, "must be a regular file",
                S_ISDIR(status.st_mode) ? "a folder" : "a pipe or device");
  return {static_cast<uint64_t>(status.st_size),
          int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

FileDescriptor OpenRegularFile(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer; it has no effect on regular files.
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  OPST_CHECK_IO(descriptor.is_open(), path, "file must open for reading", ErrnoText(errno));
  StatusOf(descriptor, path);
  return descriptor;
}

std::string ReadWholeFile(const std::string& path, uint64_t max_bytes) {
  const FileDescriptor descriptor = OpenRegularFile(path);
  const std::string rule = Concat("must have at most ", max_bytes, " bytes");
  const uint64_t num_bytes = StatusOf(descriptor, path).num_bytes;
  OPST_CHECK_IO(num_bytes <= max_bytes, path, rule, num_bytes, " bytes");
  // The size is only a first guess: files in /proc say 0, and a file may still be growing. One byte
  // more than expected lets the end be seen without another resize.
  std::string content(static_cast<size_t>(num_bytes) + 1, '\0');
  size_t filled = 0;
  while (true) {
    const ssize_t got = ::read(descriptor.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    OPST_CHECK_IO(got >= 0, path, "file must be readable", ErrnoText(errno));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
    OPST_CHECK_IO(filled <= max_bytes, path, rule, "more");
    if (filled == content.size()) content.resize(std::max<size_t>(4096, 2 * content.size()));
  }
  content.resize(filled);
  return content;
}

std::vector<std::string> ListFiles(const std::string& folder, std::string_view suffix) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  OPST_CHECK_IO(!error, folder, "folder must be readable", error.message());
  std::vector<std::string> names;
  size_t num_entries = 0;
  while (entry != std::filesystem::directory_iterator()) {
    OPST_CHECK_IO(++num_entries <= kMaxFolderEntries, folder,
                  Concat("must have at most ", kMaxFolderEntries, " entries"), "more");
    std::string name = entry->path().filename().string();
    if (name.ends_with(suffix) && !name.starts_with('.') && entry->is_regular_file(error)) {
      names.push_back(std::move(name));
    }
    entry.increment(error);
    OPST_CHECK_IO(!error, folder, "folder must be readable", error.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

std::string ParentFolder(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace opst
