// Lines to standard output when the program's user asked for them, and only then.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/runtime/log.h"

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/strings.h"

namespace opst::cann {
namespace {

constexpr int kNothing = 4;

int LevelOfEnvironment() {
  const char* prints = std::getenv("ASCEND_SLOG_PRINT_TO_STDOUT");
  if (prints == nullptr || Trim(prints) != "1") return kNothing;
  const char* level = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
  const auto number = level == nullptr ? std::nullopt : ParseInt(Trim(level));
  return number && *number >= ACL_DEBUG && *number <= kNothing ? static_cast<int>(*number)
                                                               : static_cast<int>(ACL_ERROR);
}

std::atomic<int>& Level() {
  static std::atomic<int> level{LevelOfEnvironment()};
  return level;
}

}  // namespace

void ReadLogSettings() { Level() = LevelOfEnvironment(); }

bool LogEnabled(aclLogLevel level) noexcept { return static_cast<int>(level) >= Level(); }

void Log(aclLogLevel level, std::string_view text) {
  if (!LogEnabled(level)) return;
  static constexpr std::array<const char*, 4> kNames = {"DEBUG", "INFO", "WARNING", "ERROR"};
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  std::fprintf(stdout, "[%s] OPST: %.*s\n", kNames[static_cast<size_t>(level)],
               static_cast<int>(text.size()), text.data());
  std::fflush(stdout);
}

}  // namespace opst::cann

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line,
               const char* fmt, ...) {
  if (fmt == nullptr || logLevel < ACL_DEBUG || logLevel > ACL_ERROR) return;
  if (!opst::cann::LogEnabled(logLevel)) return;
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, fmt);
  std::vsnprintf(text.data(), text.size(), fmt, arguments);
  va_end(arguments);
  const auto name = [](const char* given) { return given == nullptr ? "?" : given; };
  opst::cann::Log(logLevel,
                  opst::Concat(name(file), ":", line, " ", name(func), ": ", text.data()));
}
