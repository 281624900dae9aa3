// Allocates from the heap or by mmap and turns failures into kOutOfMemory; keeps no statistics.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace opst {
namespace {

[[noreturn]] void ThrowOutOfMemory(size_t bytes) {
  Throw(ErrorKind::kOutOfMemory, "memory", "a buffer must fit the memory of this process",
        Concat("a request for ", FormatBytes(bytes), " (", bytes, " bytes)"));
}

// Maps at least `bytes`, starting on a huge page boundary: maps one huge page more and gives the
// ends back, since mmap itself only promises small-page alignment.
std::byte* MapAligned(size_t bytes, size_t mapped_bytes) {
  const size_t reserved_bytes = mapped_bytes + kHugePageBytes;
  void* reserved =
      mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) ThrowOutOfMemory(bytes);
  auto* begin = static_cast<std::byte*>(reserved);
  const size_t misaligned = reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  const size_t head = misaligned == 0 ? 0 : kHugePageBytes - misaligned;
  const size_t tail = reserved_bytes - head - mapped_bytes;
  if (head > 0) munmap(begin, head);
  if (tail > 0) munmap(begin + head + mapped_bytes, tail);
  return begin + head;
}

}  // namespace

size_t AlignedSize(size_t bytes) {
  if (bytes > SIZE_MAX - kAlignment) ThrowOutOfMemory(bytes);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

AlignedBuffer::AlignedBuffer(size_t bytes, BufferOptions options) : size_(bytes) {
  if (bytes == 0) return;
  if (bytes < kHugePageBytes) {
    const size_t rounded = AlignedSize(bytes);
    data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
    if (data_ == nullptr) ThrowOutOfMemory(bytes);
    if (options.is_zeroed) std::memset(data_, 0, rounded);
    return;
  }
  // No object needs half of the address space; below, sums cannot overflow.
  if (bytes > SIZE_MAX / 2) ThrowOutOfMemory(bytes);
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t mapped_bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  data_ = MapAligned(bytes, mapped_bytes);
  mapped_bytes_ = mapped_bytes;
  if (options.use_huge_pages) madvise(data_, mapped_bytes_, MADV_HUGEPAGE);
}

void AlignedBuffer::Swap(AlignedBuffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
}

void AlignedBuffer::Release() noexcept {
  if (mapped_bytes_ > 0) {
    munmap(data_, mapped_bytes_);
  } else {
    std::free(data_);
  }
}

std::byte* ScratchArena::TakeBytes(size_t count, size_t element_bytes) {
  if (count > SIZE_MAX / 2 / element_bytes) ThrowOutOfMemory(SIZE_MAX);
  const size_t bytes = AlignedSize(std::max<size_t>(count * element_bytes, 1));
  if (blocks_.empty() || bytes > blocks_.back().size() - used_bytes_) {
    // Nothing of an only block in use: replaced, not kept beside the larger one.
    if (used_bytes_ == 0) blocks_.clear();
    blocks_.emplace_back(std::max(bytes, wanted_bytes_), options_);
    used_bytes_ = 0;
    wanted_bytes_ = 0;
  }
  std::byte* taken = blocks_.back().data() + used_bytes_;
  used_bytes_ += bytes;
  return taken;
}

void ScratchArena::Reset() noexcept {
  used_bytes_ = 0;
  if (blocks_.size() <= 1) return;
  // Gives back now and asks at the next Take: both at once would double the peak, and Reset must
  // not fail.
  wanted_bytes_ = capacity_bytes();
  blocks_.clear();
}

void ScratchArena::Release() noexcept {
  blocks_.clear();
  used_bytes_ = 0;
  wanted_bytes_ = 0;
}

size_t ScratchArena::capacity_bytes() const {
  size_t total = 0;
  for (const AlignedBuffer& block : blocks_) total += block.size();
  return total;
}

}  // namespace opst
