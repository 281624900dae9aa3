// Aligned memory, in huge pages when it is large, and a scratch arena; not a general allocator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_MEMORY_H_
#define OPST_BASE_MEMORY_H_

#include <cstddef>
#include <type_traits>
#include <vector>

namespace opst {

// A cache line, and the widest vector.
inline constexpr size_t kAlignment = 64;
// Buffers from this size on are mapped on a boundary of this size.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// `bytes` rounded up to whole cache lines; throws kOutOfMemory when that overflows.
size_t AlignedSize(size_t bytes);

struct BufferOptions {
  bool is_zeroed = true;
  // Asks the kernel for 2 MB pages from kHugePageBytes on; it may decline silently.
  bool use_huge_pages = true;
};

// Owns bytes: 64-byte aligned, 2 MB-aligned from 2 MB on. An empty one has data() == nullptr.
// Throws kOutOfMemory naming the size. Pages are not touched by the constructor when the buffer is
// large, so the first writer decides their NUMA node.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes, BufferOptions options = {});
  ~AlignedBuffer() { Release(); }
  AlignedBuffer(AlignedBuffer&& other) noexcept { Swap(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    Swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void Swap(AlignedBuffer& other) noexcept;
  void Release() noexcept;

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_bytes_ = 0;  // 0 = from the heap
};

// Hands out uninitialised arrays that all live until Reset. After Reset the memory is kept and,
// when it came in several blocks, joined into one, so repeated calls of one size allocate once; a
// first array that does not fit replaces it. Not thread safe: one owner takes, workers get the
// pointers.
class ScratchArena {
 public:
  // `options.is_zeroed` is ignored: reused memory is never cleared.
  explicit ScratchArena(BufferOptions options = {}) : options_(options) {
    options_.is_zeroed = false;
  }

  // 64-byte aligned; `count` may be 0.
  template <typename T>
  T* Take(size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    return reinterpret_cast<T*>(TakeBytes(count, sizeof(T)));
  }
  void Reset() noexcept;
  // Gives the memory back.
  void Release() noexcept;
  // Held now, used or not.
  size_t capacity_bytes() const;

 private:
  std::byte* TakeBytes(size_t count, size_t element_bytes);

  BufferOptions options_;
  std::vector<AlignedBuffer> blocks_;
  size_t used_bytes_ = 0;    // of the last block
  size_t wanted_bytes_ = 0;  // of the next block, at least
};

}  // namespace opst

#endif  // OPST_BASE_MEMORY_H_
