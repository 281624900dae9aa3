// A fixed team of workers that fork and join, and a work counter; not a task graph.
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

// Worker 0 is the calling thread. Whoever waits (a worker for a section, the caller for workers)
// spins for some tens of microseconds and then sleeps in the kernel: an idle pool costs nothing,
// and on a machine busy with other processes nobody burns the time slice that it needs for work.
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
  // its work by: 1 in a nested section. The first exception is rethrown here. Workers must not wait
  // for each other inside fn: one that throws would never come. Phases are sections.
  void Run(FunctionRef<void(int worker, int num_workers)> fn);

  // Calls fn(index, worker) for every index in [0, n), handed out one by one, worker being any of
  // 0 … num_workers()-1 (0 when n is 1), and waits only for
  // the workers that came before the last index was taken: one that another process keeps from its
  // core holds up nobody. After an exception the worker that threw takes no more indices.
  void ParallelFor(size_t n, FunctionRef<void(size_t index, int worker)> fn);

  // How often a waiting thread went to sleep since the start, for tests and profiles.
  uint64_t num_sleeps() const { return num_sleeps_.load(std::memory_order_relaxed); }

 private:
  using Section = FunctionRef<void(int, int)>;
  enum class Attendance { kEveryWorker, kWhoComes };

  void RunSection(Section section, Attendance attendance, int max_helpers);
  void WaitForLeavers(uint32_t wanted);
  void WorkerLoop(int worker);
  // Waits for a section other than `seen` and returns the entry.
  uint64_t AwaitSection(uint64_t seen);
  void Leave();
  void Execute(int worker) noexcept;
  void Stop();

  int num_workers_;
  std::mutex turn_;  // one section at a time
  // The section's number, whether it is closed, and how many workers have entered (thread_pool.cc).
  // A worker that finds it closed has missed it.
  std::atomic<uint64_t> entry_;
  std::atomic<uint32_t> num_left_{0};  // of those who entered
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<uint32_t> epoch_{0};  // counts sections; what workers sleep on
  std::atomic<int> num_sleeping_{0};
  std::atomic<uint64_t> num_sleeps_{0};
  std::atomic<bool> stop_{false};
  const Section* section_ = nullptr;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace opst

#endif  // OPST_BASE_THREAD_POOL_H_
