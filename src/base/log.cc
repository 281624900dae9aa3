// Chooses levels and topics by name and hands lines to the sink; builds no texts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <cstdio>
#include <optional>
#include <utility>

namespace opst {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"error", "warning", "info", "debug"};
constexpr std::array<std::string_view, kNumLogTopics> kTopicNames = {"dispatch"};

std::optional<size_t> IndexOf(std::span<const std::string_view> names, std::string_view name) {
  for (size_t index = 0; index < names.size(); ++index) {
    if (names[index] == name) return index;
  }
  return std::nullopt;
}

void WriteToStderr(LogLevel level, std::string_view line) {
  std::string text = "opst: ";
  if (level <= LogLevel::kWarning) text += Concat(Name(level), ": ");
  text.append(line);
  text += '\n';
  // One call, so that lines of several processes do not mix.
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

std::string_view Name(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }
std::string_view Name(LogTopic topic) { return kTopicNames[static_cast<size_t>(topic)]; }

Logger::Logger(std::span<const std::string_view> names, LogSink sink)
    : sink_(sink ? std::move(sink) : LogSink(WriteToStderr)) {
  std::optional<LogLevel> loudest;
  for (const std::string_view name : names) {
    if (const std::optional<size_t> level = IndexOf(kLevelNames, name)) {
      const auto named = static_cast<LogLevel>(*level);
      if (!loudest || named > *loudest) loudest = named;
    } else if (const std::optional<size_t> topic = IndexOf(kTopicNames, name)) {
      topics_[*topic] = true;
    } else {
      ThrowInvalid("log", "names must be levels or topics", Concat('"', name, '"'));
    }
  }
  level_ = loudest.value_or(LogLevel::kWarning);
  if (level_ == LogLevel::kDebug) topics_.fill(true);
}

void Logger::Send(LogLevel level, std::string_view text) const {
  const std::lock_guard<std::mutex> lock(sink_mutex_);
  while (true) {
    const size_t end = text.find('\n');
    sink_(level, text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

bool Logger::IsFirst(std::string_view key) const {
  const std::lock_guard<std::mutex> lock(keys_mutex_);
  if (keys_.find(key) != keys_.end()) return false;
  keys_.emplace(key);
  return true;
}

}  // namespace opst
