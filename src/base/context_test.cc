// Tests of how a Context is put together from arguments and environment.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/context.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/config.h"
#include "base/log.h"
#include "base/testing/errors.h"
#include "base/thread_pool.h"
#include "base/topology.h"
#include "opst/error.h"

namespace opst {
namespace {

struct ScopedVariable {
  ScopedVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name_); }
  const char* name_;
};

ContextOptions WithLog(std::vector<std::string>& lines) {
  ContextOptions options;
  options.log_sink = [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); };
  options.settings = {{"log", "info"}};
  return options;
}

TEST(ContextTest, DefaultsToTheWorkersOfTheTopologyAndSaysSo) {
  const ScopedVariable unset("OPST_THREADS", "");
  std::vector<std::string> lines;
  const Context context(WithLog(lines));
  const Topology topology = DetectTopology();
  EXPECT_EQ(context.num_threads(), topology.num_workers);
  EXPECT_EQ(lines, std::vector<std::string>{topology.explanation});
}

TEST(ContextTest, NumberOfThreadsComesFromArgumentThenEnvironment) {
  const ScopedVariable variable("OPST_THREADS", "2");
  EXPECT_EQ(Context().num_threads(), 2);
  std::vector<std::string> lines;
  ContextOptions options = WithLog(lines);
  options.num_threads = 3;
  const Context context(options);
  EXPECT_EQ(context.num_threads(), 3);
  EXPECT_EQ(context.pool().num_workers(), 3);
  EXPECT_EQ(lines, std::vector<std::string>{"3 workers (threads set by argument)"});
}

TEST(ContextTest, SettingsReachTheConfig) {
  ContextOptions options;
  options.settings = {{"stage1_buffer_size", "1MB"}};
  const Context context(options);
  EXPECT_EQ(context.config().GetBytes("stage1_buffer_size"), size_t{1} << 20);
  EXPECT_FALSE(context.log().Enabled(LogLevel::kInfo));
}

TEST(ContextTest, NegativeThreadsAndUnknownVariablesAreRefused) {
  ContextOptions options;
  options.num_threads = -1;
  EXPECT_THROW(Context{options}, Error);
  const ScopedVariable variable("OPST_THRAEDS", "2");
  const std::string error = Rejection([] { const Context context; });
  EXPECT_NE(error.find("\"OPST_THREADS\""), std::string::npos) << error;
}

}  // namespace
}  // namespace opst
