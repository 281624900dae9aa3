// Fork, join, spin and park; who runs what is decided by the callers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace opst {
namespace {

// About 50 us at 3 GHz: longer than the serial gaps inside a decoder layer, far shorter than the
// time a person would notice a core burning.
constexpr int kSpinsBeforeParking = 1500;
// A barrier's peers are normally microseconds apart; beyond that they may be waiting for our core.
constexpr int kSpinsBeforeYield = 4000;

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

void SpinBarrier::Wait(int num_workers) {
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_workers) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_acq_rel);
    return;
  }
  int spins = 0;
  while (generation_.load(std::memory_order_acquire) == generation) {
    if (spins < kSpinsBeforeYield) {
      ++spins;
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

ThreadPool::ThreadPool(int num_workers) : num_workers_(num_workers < 1 ? 1 : num_workers) {
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
  section_id_.fetch_add(1, std::memory_order_release);
  section_id_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(FunctionRef<void(int, int)> fn) {
  if (inside_section || num_workers_ == 1) {
    fn(0, 1);
    return;
  }
  const std::lock_guard<std::mutex> turn(turn_);
  section_ = &fn;
  error_ = nullptr;
  running_.store(num_workers_ - 1, std::memory_order_relaxed);
  section_id_.fetch_add(1, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst) > 0) section_id_.notify_all();
  Execute(0);
  int spins = 0;
  while (running_.load(std::memory_order_acquire) > 0) {
    if (spins < kSpinsBeforeYield) {
      ++spins;
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void ThreadPool::ParallelFor(size_t n, FunctionRef<void(size_t, int)> fn) {
  if (n <= 1) {
    if (n == 1) fn(0, 0);
    return;
  }
  WorkQueue queue(n);
  Run([&](int worker, int) {
    size_t index = 0;
    while (queue.Pop(index)) fn(index, worker);
  });
}

void ThreadPool::WorkerLoop(int worker) {
  uint32_t seen = 0;
  while (true) {
    uint32_t current = section_id_.load(std::memory_order_acquire);
    for (int spins = 0; current == seen && spins < kSpinsBeforeParking; ++spins) {
      Pause();
      current = section_id_.load(std::memory_order_acquire);
    }
    if (current == seen) {
      parked_.fetch_add(1, std::memory_order_seq_cst);
      section_id_.wait(seen, std::memory_order_seq_cst);
      parked_.fetch_sub(1, std::memory_order_seq_cst);
      continue;
    }
    seen = current;
    if (stop_.load(std::memory_order_acquire)) return;
    Execute(worker);
    running_.fetch_sub(1, std::memory_order_release);
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
