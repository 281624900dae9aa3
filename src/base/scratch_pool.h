// Scratch memory that operators borrow for one call and that is kept between calls.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_SCRATCH_POOL_H_
#define OPST_BASE_SCRATCH_POOL_H_

#include <memory>
#include <mutex>
#include <vector>

#include "base/memory.h"

namespace opst {

// Mapping and first touching 100 MB takes longer than many a layer call, hence the keeping.
// Thread safe: every borrower has an arena of its own; the one returned last is lent first.
class ScratchPool {
 public:
  explicit ScratchPool(BufferOptions options = {.is_zeroed = false}) : options_(options) {}

  struct Returner {
    ScratchPool* pool;
    void operator()(ScratchArena* arena) const { pool->Return(arena); }
  };
  using Lease = std::unique_ptr<ScratchArena, Returner>;

  // The arena is empty; it must be given back before the pool dies.
  Lease Borrow() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.empty()) {
      idle_.reserve(++num_arenas_);  // so that Return can't fail
      return Lease(new ScratchArena(options_), Returner{this});
    }
    ScratchArena* arena = idle_.back().release();
    idle_.pop_back();
    return Lease(arena, Returner{this});
  }

  // How large buffers of this context are to be had (the setting `huge_pages`).
  const BufferOptions& options() const { return options_; }

  // Memory kept for later borrowers.
  size_t idle_bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    size_t total = 0;
    for (const auto& arena : idle_) total += arena->capacity_bytes();
    return total;
  }

 private:
  void Return(ScratchArena* arena) noexcept {
    arena->Reset();
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.emplace_back(arena);
  }

  BufferOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ScratchArena>> idle_;
  size_t num_arenas_ = 0;  // lent and idle
};

}  // namespace opst

#endif  // OPST_BASE_SCRATCH_POOL_H_
