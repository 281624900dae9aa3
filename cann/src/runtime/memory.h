// Device memory: blocks of host memory whose bounds are known. Copies are in memory_api.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_RUNTIME_MEMORY_H_
#define OPST_CANN_RUNTIME_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace opst::cann {

enum class MemoryKind : uint8_t { kDevice, kHost };

// One allocation. Whoever holds it keeps the memory, also after aclrtFree: queued work does.
struct MemoryBlock {
  std::byte* data = nullptr;
  size_t bytes = 0;     // asked for
  size_t capacity = 0;  // up to the next page; zero behind `bytes`
  MemoryKind kind = MemoryKind::kDevice;

  MemoryBlock(size_t size, MemoryKind of_kind);
  ~MemoryBlock();
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;
  // Bytes from `address`, which lies in the block, to the block's end.
  size_t BytesFrom(const void* address) const {
    return bytes - static_cast<size_t>(static_cast<const std::byte*>(address) - data);
  }
};

// All blocks of the process. Thread safe.
class MemoryRegistry {
 public:
  // Throws std::bad_alloc.
  void* Allocate(size_t bytes, MemoryKind kind);
  // False when `address` is not the start of a live block of this kind.
  bool Free(const void* address, MemoryKind kind);
  // The live block that contains the address, or none; an address just behind a block is outside.
  std::shared_ptr<MemoryBlock> Find(const void* address);
  size_t allocated_bytes();

 private:
  std::mutex mutex_;
  std::map<uintptr_t, std::shared_ptr<MemoryBlock>> blocks_;  // by start
  size_t allocated_bytes_ = 0;
};

MemoryRegistry& Memory();

}  // namespace opst::cann

#endif  // OPST_CANN_RUNTIME_MEMORY_H_
