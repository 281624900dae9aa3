// Fork, join, spin and park; who runs what is decided by the callers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <algorithm>

#include "base/check.h"
#include "base/futex.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace opst {
namespace {

// About 50 us at 3 GHz: longer than the serial gaps inside a decoder layer, far shorter than the
// time a person would notice a core burning. A longer wait is likely to be for a thread that has
// lost its core to another process; sleeping leaves ours to whoever needs it, and a sleeper is
// scheduled sooner than one who has used up its slice.
constexpr int kSpinsBeforeSleep = 1500;

// entry_ = section number · 2^16 + closed · 2^15 + number of workers that entered.
constexpr uint64_t kClosed = uint64_t{1} << 15;
constexpr uint64_t SectionOf(uint64_t entry) { return entry >> 16; }
constexpr uint64_t EntryOf(uint64_t section) { return section << 16; }
constexpr uint32_t NumEntered(uint64_t entry) { return static_cast<uint32_t>(entry % kClosed); }

// Set while a thread executes a section, so that a nested section runs inline.
thread_local bool inside_section = false;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_workers)
    : num_workers_(std::max(num_workers, 1)), entry_(EntryOf(0) | kClosed) {
  threads_.reserve(static_cast<size_t>(num_workers_ - 1));
  try {
    for (int worker = 1; worker < num_workers_; ++worker) {
      threads_.emplace_back([this, worker] { WorkerLoop(worker); });
    }
  } catch (const std::exception& error) {
    // Threads that are still joinable would end the process when the members go.
    const size_t num_started = threads_.size() + 1;
    Stop();
    Throw(ErrorKind::kOutOfMemory, "threads", Concat(num_workers_, " workers must be startable"),
          Concat(num_started, " before: ", error.what()));
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  stop_.store(true, std::memory_order_release);
  entry_.store(EntryOf(SectionOf(entry_.load()) + 1) | kClosed, std::memory_order_seq_cst);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(epoch_, num_workers_);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(FunctionRef<void(int, int)> fn) {
  if (inside_section || num_workers_ == 1) {
    fn(0, 1);
    return;
  }
  RunSection(fn, Attendance::kEveryWorker, num_workers_ - 1);
}

void ThreadPool::ParallelFor(size_t n, FunctionRef<void(size_t, int)> fn) {
  if (n <= 1 || inside_section || num_workers_ == 1) {
    for (size_t index = 0; index < n; ++index) fn(index, 0);
    return;
  }
  WorkQueue queue(n);
  const auto work = [&](int worker, int) {
    size_t index = 0;
    while (queue.Pop(index)) fn(index, worker);
  };
  RunSection(work, Attendance::kWhoComes,
             static_cast<int>(std::min(n, static_cast<size_t>(num_workers_))) - 1);
}

void ThreadPool::RunSection(Section section, Attendance attendance, int max_helpers) {
  const std::lock_guard<std::mutex> turn(turn_);
  section_ = &section;
  error_ = nullptr;
  num_left_.store(0, std::memory_order_relaxed);
  const uint64_t next = SectionOf(entry_.load(std::memory_order_relaxed)) + 1;
  entry_.store(EntryOf(next), std::memory_order_seq_cst);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (num_sleeping_.load(std::memory_order_seq_cst) > 0) FutexWake(epoch_, max_helpers);
  Execute(0);
  if (attendance == Attendance::kEveryWorker) {
    WaitForLeavers(static_cast<uint32_t>(num_workers_ - 1));
    entry_.fetch_or(kClosed, std::memory_order_acq_rel);
  } else {
    WaitForLeavers(NumEntered(entry_.fetch_or(kClosed, std::memory_order_acq_rel)));
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void ThreadPool::WaitForLeavers(uint32_t wanted) {
  for (int spins = 0; spins < kSpinsBeforeSleep; ++spins) {
    if (num_left_.load(std::memory_order_acquire) == wanted) return;
    Pause();
  }
  // Either the leaver sees this flag and wakes, or its count is seen here: both are seq_cst.
  caller_sleeps_.store(true, std::memory_order_seq_cst);
  uint32_t left = 0;
  while ((left = num_left_.load(std::memory_order_seq_cst)) != wanted) {
    num_sleeps_.fetch_add(1, std::memory_order_relaxed);
    FutexWait(num_left_, left);
  }
  caller_sleeps_.store(false, std::memory_order_relaxed);
}

void ThreadPool::Leave() {
  num_left_.fetch_add(1, std::memory_order_seq_cst);
  if (caller_sleeps_.load(std::memory_order_seq_cst)) FutexWake(num_left_, 1);
}

uint64_t ThreadPool::AwaitSection(uint64_t seen) {
  while (true) {
    for (int spins = 0; spins < kSpinsBeforeSleep; ++spins) {
      const uint64_t entry = entry_.load(std::memory_order_acquire);
      if (SectionOf(entry) != seen) return entry;
      Pause();
    }
    num_sleeping_.fetch_add(1, std::memory_order_seq_cst);
    // The order matters: an epoch read before the entry changes makes FutexWait return.
    const uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
    if (SectionOf(entry_.load(std::memory_order_seq_cst)) == seen) {
      num_sleeps_.fetch_add(1, std::memory_order_relaxed);
      FutexWait(epoch_, epoch);
    }
    num_sleeping_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

void ThreadPool::WorkerLoop(int worker) {
  uint64_t seen = 0;
  while (true) {
    uint64_t entry = AwaitSection(seen);
    bool has_entered = false;
    // A failed exchange reloads `entry`, perhaps with a later section.
    while (!has_entered && (entry & kClosed) == 0) {
      has_entered = entry_.compare_exchange_weak(entry, entry + 1, std::memory_order_acq_rel,
                                                 std::memory_order_acquire);
    }
    seen = SectionOf(entry);
    if (has_entered) {
      Execute(worker);
      Leave();
    } else if (stop_.load(std::memory_order_acquire)) {
      // Looked at only here: the entry that Stop makes may be the one that the exchange reloaded,
      // and then no other comes.
      return;
    }
  }
}

void ThreadPool::Execute(int worker) noexcept {
  inside_section = true;
  try {
    (*section_)(worker, num_workers_);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(error_mutex_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
  inside_section = false;
}

}  // namespace opst
