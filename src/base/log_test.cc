// Tests of levels, topics and the sink.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace opst {
namespace {

using Lines = std::vector<std::pair<LogLevel, std::string>>;
using Names = std::vector<std::string_view>;

LogSink Into(Lines& lines) {
  return [&lines](LogLevel level, std::string_view line) { lines.emplace_back(level, line); };
}

TEST(LoggerTest, TheMostTalkativeLevelCounts) {
  const Logger log(Names{"info", "error"});
  EXPECT_TRUE(log.Enabled(LogLevel::kError));
  EXPECT_TRUE(log.Enabled(LogLevel::kInfo));
  EXPECT_FALSE(log.Enabled(LogLevel::kDebug));
  EXPECT_FALSE(log.Enabled(LogTopic::kDispatch));
}

TEST(LoggerTest, TopicsAloneLeaveWarnings) {
  const Logger log(Names{"dispatch"});
  EXPECT_TRUE(log.Enabled(LogTopic::kDispatch));
  EXPECT_TRUE(log.Enabled(LogLevel::kWarning));
  EXPECT_FALSE(log.Enabled(LogLevel::kInfo));
  EXPECT_TRUE(Logger(Names{}).Enabled(LogLevel::kWarning));
}

TEST(LoggerTest, DebugShowsEveryTopic) {
  EXPECT_TRUE(Logger(Names{"debug"}).Enabled(LogTopic::kDispatch));
}

TEST(LoggerTest, UnknownNameIsRefused) { EXPECT_THROW(Logger(Names{"loud"}), Error); }

TEST(LoggerTest, SinkGetsWholeEnabledLines) {
  Lines lines;
  const Logger log(Names{"dispatch"}, Into(lines));
  log.Write(LogLevel::kWarning, "row ", 3, " of ", 4);
  log.Write(LogLevel::kInfo, "not shown");
  log.Write(LogTopic::kDispatch, "gating: avx2");
  log.Write(LogLevel::kError, "first\nsecond");
  EXPECT_EQ(lines, (Lines{{LogLevel::kWarning, "row 3 of 4"},
                          {LogLevel::kDebug, "dispatch: gating: avx2"},
                          {LogLevel::kError, "first"},
                          {LogLevel::kError, "second"}}));
}

TEST(LoggerTest, WriteOnceIsPerKeyAndLogger) {
  Lines lines;
  const Logger log(Names{}, Into(lines));
  for (int i = 0; i < 3; ++i) {
    log.WriteOnce(LogLevel::kWarning, "nan", "NaN in row ", i);
    log.WriteOnce(LogLevel::kWarning, "inf", "Inf in row ", i);
  }
  EXPECT_EQ(lines,
            (Lines{{LogLevel::kWarning, "NaN in row 0"}, {LogLevel::kWarning, "Inf in row 0"}}));
  Logger(Names{}, Into(lines)).WriteOnce(LogLevel::kWarning, "nan", "again");
  EXPECT_EQ(lines.size(), 3u);
}

TEST(LoggerTest, SeveralThreadsGiveOneLineAtATime) {
  Lines lines;
  const Logger log(Names{}, Into(lines));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        log.Write(LogLevel::kError, "line");
        log.WriteOnce(LogLevel::kError, "key", "once");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines.size(), 401u);
}

TEST(LoggerTest, StandardErrorIsTheDefaultSink) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Logger log(Names{"info"});
  log.Write(LogLevel::kInfo, "2 workers");
  log.Write(LogLevel::kWarning, "slow path");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "opst: 2 workers\nopst: warning: slow path\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace opst
