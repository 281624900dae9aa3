// The thread behind a stream, its queue and its first error; events are counters with a time.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/runtime/stream.h"

#include <utility>

#include "cann/src/runtime/failure.h"
#include "cann/src/runtime/log.h"

namespace opst::cann {
namespace {

// Waits for `holds` with a lock of the mutex; false after the time.
template <typename Condition>
bool WaitFor(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
             int32_t timeout_ms, const Condition& holds) {
  if (timeout_ms >= 0) {
    return changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), holds);
  }
  changed.wait(lock, holds);
  return true;
}

}  // namespace

Stream::~Stream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Stream::Enqueue(std::string_view name, std::function<void()> task, AfterError after_error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back({std::string(name), std::move(task), after_error});
    ++num_given_;
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  }
  changed_.notify_all();
}

int Stream::Synchronize(int32_t timeout_ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t wanted = num_given_;
  if (!WaitFor(changed_, lock, timeout_ms, [&] { return num_done_ >= wanted; })) {
    return Report(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                  Concat("[aclrtSynchronizeStreamWithTimeout] the stream must finish in time; got ",
                         timeout_ms, " ms, ", wanted - num_done_, " tasks left"));
  }
  const int code = std::exchange(error_code_, ACL_SUCCESS);
  return code == ACL_SUCCESS ? code : Report(code, std::exchange(error_text_, {}));
}

bool Stream::is_idle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_done_ == num_given_;
}

void Stream::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;  // stopping, and all work is done
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    const bool is_dropped = error_code_ != ACL_SUCCESS && task.after_error == AfterError::kDropped;
    lock.unlock();
    if (!is_dropped) RunTask(task);
    task.run = nullptr;  // what it held is free before it counts as done
    lock.lock();
    ++num_done_;
    changed_.notify_all();
  }
}

void Stream::RunTask(Task& task) {
  const auto start = std::chrono::steady_clock::now();
  // A value that an operator refuses is found here, while the stream runs: a fault of the device.
  const Outcome outcome = Try(ACL_ERROR_RT_AICORE_EXCEPTION, task.run);
  if (outcome.code != ACL_SUCCESS) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_code_ != ACL_SUCCESS) return;  // the first one counts
    error_code_ = outcome.code;
    error_text_ = Concat(task.name, ": ", outcome.text);
  } else if (LogEnabled(ACL_INFO)) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - start);
    Log(ACL_INFO, Concat(task.name, " ran ", us.count(), " us"));
  }
}

void Event::Complete(uint64_t recording) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (recording > completed_) completed_ = recording;
    completed_at_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
}

uint64_t Event::Record() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ++recorded_;
}

uint64_t Event::last_recording() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return recorded_;
}

bool Event::is_complete() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return completed_ >= recorded_;
}

bool Event::Wait(uint64_t recording, int32_t timeout_ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  return WaitFor(changed_, lock, timeout_ms, [&] { return completed_ >= recording; });
}

void Event::Reset() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    completed_ = recorded_;
  }
  changed_.notify_all();
}

std::chrono::steady_clock::time_point Event::completed_at() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return completed_at_;
}

}  // namespace opst::cann
