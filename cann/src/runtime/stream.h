// Streams: queues of work, each with a thread of its own, and events that order them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_RUNTIME_STREAM_H_
#define OPST_CANN_RUNTIME_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "acl/acl_rt.h"

namespace opst::cann {

// What becomes of a task that stands behind one that failed: events still happen.
enum class AfterError : uint8_t { kDropped, kRuns };

// Runs tasks one after the other, in the order in which they were given, on its own thread, which
// starts with the first task. So a program may queue the work of several ranks from one thread, and
// only then wait for them.
class Stream {
 public:
  Stream() = default;
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // `name` is for error texts. After a task has failed, the later ones are dropped until
  // Synchronize has reported it.
  void Enqueue(std::string_view name, std::function<void()> task,
               AfterError after_error = AfterError::kDropped);
  // Waits for all tasks given so far. The code of the first that failed, with its text as this
  // thread's last error; ACL_ERROR_RT_STREAM_SYNC_TIMEOUT after timeout_ms (-1 = no end).
  int Synchronize(int32_t timeout_ms);
  bool is_idle();

 private:
  struct Task {
    std::string name;
    std::function<void()> run;
    AfterError after_error = AfterError::kDropped;
  };
  void Loop();
  void RunTask(Task& task);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t num_given_ = 0;
  uint64_t num_done_ = 0;
  bool is_stopping_ = false;
  int error_code_ = ACL_SUCCESS;
  std::string error_text_;
  std::thread thread_;
};

// A point in a stream.
class Event {
 public:
  // What a stream does when it reaches the n-th recording.
  void Complete(uint64_t recording);
  // A new recording's number.
  uint64_t Record();
  // The number that a wait started now is about.
  uint64_t last_recording();
  bool is_complete();
  // False after timeout_ms (-1 = no end).
  bool Wait(uint64_t recording, int32_t timeout_ms);
  void Reset();
  std::chrono::steady_clock::time_point completed_at();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t recorded_ = 0;
  uint64_t completed_ = 0;
  std::chrono::steady_clock::time_point completed_at_{};
};

// The live stream behind a handle; a null handle is the current context's default stream. Throws
// Failure.
std::shared_ptr<Stream> FindStream(aclrtStream handle, std::string_view function);

}  // namespace opst::cann

#endif  // OPST_CANN_RUNTIME_STREAM_H_
