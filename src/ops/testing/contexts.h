// Contexts of a given team, settings and log; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_TESTING_CONTEXTS_H_
#define OPST_OPS_TESTING_CONTEXTS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opst/context.h"

namespace opst {

using TestSettings = std::vector<std::pair<std::string, std::string>>;

inline Context MakeContext(int num_threads, TestSettings settings = {}) {
  ContextOptions options;
  options.num_threads = num_threads;
  options.settings = std::move(settings);
  return Context(std::move(options));
}

// One worker, and every operator in its reference implementation.
inline Context MakeReferenceContext() { return MakeContext(1, {{"implementation", "reference"}}); }

// One worker; log lines of level `log` (or topic) and above are added to `lines`.
inline Context MakeLoggingContext(std::vector<std::string>& lines, const std::string& log) {
  ContextOptions options;
  options.num_threads = 1;
  options.settings = {{"log", log}};
  options.log_sink = [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); };
  return Context(std::move(options));
}

}  // namespace opst

#endif  // OPST_OPS_TESTING_CONTEXTS_H_
