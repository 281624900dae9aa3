// Context: what every operator needs besides its arguments: workers, log and options. No globals.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONTEXT_H_
#define OPST_CONTEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opst/error.h"

namespace opst {

class ScratchPool;
class ThreadPool;
class Config;
class Logger;

enum class LogLevel { kError, kWarning, kInfo, kDebug };
// Receives whole lines without a newline; may be called from any thread, one call at a time.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

struct ContextOptions {
  // Workers, the caller's thread included. 0 = the physical cores this process may really use:
  // CPU affinity, cgroup quota rounded down, SMT siblings counted once, at least 1.
  int num_threads = 0;
  // Where log lines go; empty = standard error.
  LogSink log_sink = {};
  // Overrides of configuration keys, "key=value"; they win over the OPST_* environment.
  std::vector<std::pair<std::string, std::string>> settings = {};
};

// Thread safety: one Context may be used from several threads; parallel sections take turns.
// Construction reads the OPST_* environment once and throws kInvalidArgument for an unknown
// variable (naming the nearest known one) or a value of the wrong type.
class Context {
 public:
  explicit Context(ContextOptions options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ThreadPool& pool() const { return *pool_; }
  ScratchPool& scratch() const { return *scratch_; }
  const Config& config() const { return *config_; }
  const Logger& log() const { return *log_; }
  int num_threads() const;

 private:
  std::unique_ptr<Config> config_;
  std::unique_ptr<Logger> log_;
  std::unique_ptr<ScratchPool> scratch_;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace opst

#endif  // OPST_CONTEXT_H_
