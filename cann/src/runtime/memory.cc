// The registry of blocks: a map by address, because any address inside a block must find it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/runtime/memory.h"

#include <cstring>
#include <new>

namespace opst::cann {
namespace {

constexpr std::align_val_t kAlignment{64};
// Devices allocate whole pages, and programs rely on it without knowing.
constexpr size_t kPage = 4096;

size_t WholePages(size_t bytes) {
  if (bytes > SIZE_MAX - kPage) throw std::bad_alloc();
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

MemoryBlock::MemoryBlock(size_t size, MemoryKind of_kind)
    : data(static_cast<std::byte*>(::operator new(WholePages(size), kAlignment))),
      bytes(size),
      capacity(WholePages(size)),
      kind(of_kind) {
  std::memset(data + size, 0, capacity - size);
}

MemoryBlock::~MemoryBlock() { ::operator delete(data, kAlignment); }

void* MemoryRegistry::Allocate(size_t bytes, MemoryKind kind) {
  auto block = std::make_shared<MemoryBlock>(bytes, kind);
  std::byte* data = block->data;
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_.emplace(reinterpret_cast<uintptr_t>(data), std::move(block));
  allocated_bytes_ += bytes;
  return data;
}

bool MemoryRegistry::Free(const void* address, MemoryKind kind) {
  std::shared_ptr<MemoryBlock> dying;  // freed outside the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (found == blocks_.end() || found->second->kind != kind) return false;
  dying = std::move(found->second);
  blocks_.erase(found);
  allocated_bytes_ -= dying->bytes;
  return true;
}

std::shared_ptr<MemoryBlock> MemoryRegistry::Find(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = blocks_.upper_bound(wanted);
  if (after == blocks_.begin()) return nullptr;
  const auto& block = std::prev(after)->second;
  const bool is_inside = wanted < reinterpret_cast<uintptr_t>(block->data) + block->bytes;
  return is_inside ? block : nullptr;
}

size_t MemoryRegistry::allocated_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return allocated_bytes_;
}

MemoryRegistry& Memory() {
  static auto* const registry = new MemoryRegistry;  // outlives every thread that may still use it
  return *registry;
}

}  // namespace opst::cann
