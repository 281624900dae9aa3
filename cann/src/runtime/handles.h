// The set of live handles of one kind, so that a stale pointer is an error and not a crash.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_RUNTIME_HANDLES_H_
#define OPST_CANN_RUNTIME_HANDLES_H_

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace opst::cann {

// Thread safe. Users keep what they found alive, also while another thread destroys the handle.
template <typename T>
class Handles {
 public:
  template <typename... Args>
  T* Make(Args&&... args) {
    auto made = std::make_shared<T>(std::forward<Args>(args)...);
    T* const handle = made.get();
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.emplace(handle, std::move(made));
    return handle;
  }
  // Empty when it is not live.
  std::shared_ptr<T> Find(const void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(handle);
    return found == live_.end() ? nullptr : found->second;
  }
  std::shared_ptr<T> Remove(const void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(handle);
    if (found == live_.end()) return nullptr;
    auto removed = std::move(found->second);
    live_.erase(found);
    return removed;
  }
  std::vector<std::shared_ptr<T>> All() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (const auto& [handle, object] : live_) all.push_back(object);
    return all;
  }
  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.clear();
  }

  // One set a kind, never destroyed: threads may outlive main.
  static Handles& OfProcess() {
    static auto* const handles = new Handles;
    return *handles;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<T>> live_;
};

}  // namespace opst::cann

#endif  // OPST_CANN_RUNTIME_HANDLES_H_
