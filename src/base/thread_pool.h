// A fixed team of workers that fork and join, a work counter and a spin barrier; not a task graph.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_THREAD_POOL_H_
#define OPST_BASE_THREAD_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace opst {

// A callable borrowed for the length of a call: two pointers, no allocation.
template <typename Signature>
class FunctionRef;
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT: implicit on purpose, it is a parameter type
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(args...);
        }) {}
  R operator()(Args... args) const { return call_(object_, args...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// Hands out 0 … n-1, each once, to whoever asks: busy under any skew of the tasks' lengths.
class WorkQueue {
 public:
  explicit WorkQueue(size_t n) : n_(n) {}
  bool Pop(size_t& index) {
    index = next_.fetch_add(1, std::memory_order_relaxed);
    return index < n_;
  }

 private:
  std::atomic<size_t> next_{0};
  size_t n_;
};

// Separates the phases of one parallel section: every worker calls Wait with the section's
// num_workers. Waits by spinning, then by yielding the core, so that more workers than cores still
// make progress.
class SpinBarrier {
 public:
  void Wait(int num_workers);

 private:
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> generation_{0};
};

// Worker 0 is the calling thread. Workers spin for some tens of microseconds after a section and
// then park in the kernel, so that an idle pool costs nothing.
// Sections of one pool take turns when several threads call; a section started from inside another
// runs on the calling worker alone.
class ThreadPool {
 public:
  // Throws kOutOfMemory when the system refuses that many threads.
  explicit ThreadPool(int num_workers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_workers() const { return num_workers_; }

  // Calls fn(worker, num_workers) once per worker and waits. `num_workers` is what fn must divide
  // its work by: 1 in a nested section. The first exception is rethrown here.
  void Run(FunctionRef<void(int worker, int num_workers)> fn);

  // Calls fn(index, worker) for every index in [0, n), handed out one by one.
  void ParallelFor(size_t n, FunctionRef<void(size_t index, int worker)> fn);

 private:
  using Section = FunctionRef<void(int, int)>;
  void WorkerLoop(int worker);
  void Execute(int worker) noexcept;
  void Stop();

  int num_workers_;
  std::mutex turn_;                      // one section at a time
  std::atomic<uint32_t> section_id_{0};  // a new value starts a section
  std::atomic<int> running_{0};          // workers that have not finished it
  std::atomic<int> parked_{0};
  std::atomic<bool> stop_{false};
  const Section* section_ = nullptr;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace opst

#endif  // OPST_BASE_THREAD_POOL_H_
