// A whole file as read-only bytes, mapped or read into memory; it knows no format.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace opst {
namespace {

// One read(2) call; more than 2 GB at once is not possible on Linux.
constexpr size_t kReadBytes = size_t{64} << 20;

[[noreturn]] void ThrowMapFailed(const std::string& path, uint64_t num_bytes, int error_number) {
  Throw(error_number == ENOMEM ? ErrorKind::kOutOfMemory : ErrorKind::kIo, path,
        "file must fit the address space of this process",
        Concat(num_bytes, " bytes: ", ErrnoText(error_number)));
}

}  // namespace

LoadOptions LoadOptionsOf(const Config& config) {
  return {config.GetChoice("load") == "read" ? LoadMode::kRead : LoadMode::kMap,
          config.GetBool("huge_pages")};
}

MappedFile MappedFile::Open(const std::string& path, LoadOptions options) {
  MappedFile file;
  file.path_ = path;
  file.descriptor_ = OpenRegularFile(path);
  file.status_ = StatusOf(file.descriptor_, path);
  const uint64_t num_bytes = file.status_.num_bytes;
  // Half of the address space; below, sums of sizes cannot overflow.
  if (num_bytes > SIZE_MAX / 2) ThrowMapFailed(path, num_bytes, ENOMEM);
  file.bytes_ = {static_cast<const std::byte*>(nullptr), static_cast<size_t>(num_bytes)};
  if (file.bytes_.empty()) return file;
  if (options.mode == LoadMode::kMap) {
    file.Map(options.use_huge_pages);
  } else {
    file.Read(options.use_huge_pages);
  }
  return file;
}

MappedFile::~MappedFile() {
  if (reserved_ != nullptr) ::munmap(reserved_, reserved_bytes_);
}

void MappedFile::Swap(MappedFile& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(status_, other.status_);
  std::swap(reserved_, other.reserved_);
  std::swap(reserved_bytes_, other.reserved_bytes_);
  std::swap(buffer_, other.buffer_);
}

void MappedFile::Map(bool use_huge_pages) {
  // mmap only promises 4 KB alignment, so reserve 2 MB more and map the file inside at a boundary.
  reserved_bytes_ = bytes_.size() + kHugePageBytes;
  void* reserved = ::mmap(nullptr, reserved_bytes_, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) ThrowMapFailed(path_, bytes_.size(), errno);
  reserved_ = reserved;
  auto* begin = static_cast<std::byte*>(reserved);
  begin += (kHugePageBytes - reinterpret_cast<uintptr_t>(begin) % kHugePageBytes) % kHugePageBytes;
  void* mapped =
      ::mmap(begin, bytes_.size(), PROT_READ, MAP_PRIVATE | MAP_FIXED, descriptor_.get(), 0);
  if (mapped == MAP_FAILED) ThrowMapFailed(path_, bytes_.size(), errno);
  // Only some kernels and file systems have huge pages for files; where not, this does nothing.
  if (use_huge_pages) ::madvise(mapped, bytes_.size(), MADV_HUGEPAGE);
  bytes_ = {static_cast<const std::byte*>(mapped), bytes_.size()};
}

void MappedFile::Read(bool use_huge_pages) {
  buffer_ = AlignedBuffer(bytes_.size(), {.is_zeroed = false, .use_huge_pages = use_huge_pages});
  size_t filled = 0;
  while (filled < bytes_.size()) {
    const ssize_t got = ::read(descriptor_.get(), buffer_.data() + filled,
                               std::min(kReadBytes, bytes_.size() - filled));
    if (got < 0 && errno == EINTR) continue;
    OPST_CHECK_IO(got >= 0, path_, "file must be readable", ErrnoText(errno));
    OPST_CHECK_IO(got > 0, path_, "file must not be cut while it is read", filled, " of ",
                  bytes_.size(), " bytes");
    filled += static_cast<size_t>(got);
  }
  CheckUnchanged();
  descriptor_.Close();
  bytes_ = {buffer_.data(), bytes_.size()};
}

void MappedFile::WillNeed(uint64_t offset, uint64_t num_bytes) const {
  Advise(offset, num_bytes, MADV_WILLNEED);
}

void MappedFile::DontNeed(uint64_t offset, uint64_t num_bytes) const {
  Advise(offset, num_bytes, MADV_DONTNEED);
}

void MappedFile::Advise(uint64_t offset, uint64_t num_bytes, int advice) const {
  if (reserved_ == nullptr || offset >= bytes_.size()) return;
  num_bytes = std::min<uint64_t>(num_bytes, bytes_.size() - offset);
  if (num_bytes == 0) return;
  // Whole pages, rounded outwards: a neighbour's part of a shared page comes back when touched.
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page_bytes * page_bytes;
  auto* address = const_cast<std::byte*>(bytes_.data()) + begin;
  ::madvise(address, static_cast<size_t>(offset + num_bytes - begin), advice);
}

void MappedFile::CheckUnchanged() const {
  if (!descriptor_.is_open()) return;
  const FileStatus now = StatusOf(descriptor_, path_);
  OPST_CHECK_IO(now.num_bytes == status_.num_bytes, path_,
                "file must keep its length while it is open", now.num_bytes, " bytes instead of ",
                status_.num_bytes);
  OPST_CHECK_IO(now == status_, path_, "file must not be written to while it is open",
                "a newer modification time");
}

}  // namespace opst
