// A logger with levels and topics that hangs off a Context; no globals, no format strings.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_LOG_H_
#define OPST_BASE_LOG_H_

#include <array>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "opst/context.h"

namespace opst {

// Detail that is shown on request by name (or by the level debug), e.g. OPST_LOG=dispatch.
// A new topic needs its name in log.cc and in the choices of the setting `log`.
enum class LogTopic {
  kDispatch,  // which implementation of an operator ran, and why the faster ones declined
};
inline constexpr size_t kNumLogTopics = 1;

std::string_view Name(LogLevel level);
std::string_view Name(LogTopic topic);

// Thread safe: lines are handed to the sink one at a time and whole. The sink must not log.
class Logger {
 public:
  // `names` are levels and topics, as in the setting `log`; the most talkative level counts, and
  // with topics alone it is kWarning. An empty sink means standard error, each line behind "opst:"
  // and a space.
  explicit Logger(std::span<const std::string_view> names, LogSink sink = {});

  // Cheap; ask before building an expensive text.
  bool Enabled(LogLevel level) const { return level <= level_; }
  bool Enabled(LogTopic topic) const { return topics_[static_cast<size_t>(topic)]; }

  // The parts are joined like Concat. A text with line ends arrives as several lines.
  template <typename... Args>
  void Write(LogLevel level, const Args&... parts) const {
    if (Enabled(level)) Send(level, Concat(parts...));
  }
  // Reaches the sink as kDebug.
  template <typename... Args>
  void Write(LogTopic topic, const Args&... parts) const {
    if (Enabled(topic)) Send(LogLevel::kDebug, Concat(Name(topic), ": ", parts...));
  }
  // Only the first time this logger sees `key`.
  template <typename... Args>
  void WriteOnce(LogLevel level, std::string_view key, const Args&... parts) const {
    if (Enabled(level) && IsFirst(key)) Send(level, Concat(parts...));
  }

 private:
  void Send(LogLevel level, std::string_view text) const;
  bool IsFirst(std::string_view key) const;

  LogLevel level_ = LogLevel::kWarning;
  std::array<bool, kNumLogTopics> topics_{};
  LogSink sink_;
  mutable std::mutex sink_mutex_;
  mutable std::mutex keys_mutex_;
  mutable std::set<std::string, std::less<>> keys_;
};

}  // namespace opst

#endif  // OPST_BASE_LOG_H_
