// Medians, pairs and the turns of contestants; no times are judged.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "bench/interleaved_runs.h"

namespace opst::bench {
namespace {

TEST(StatisticsTest, MedianOfOddAndEvenCounts) {
  const Summary odd = Summarize({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(odd.runs, 3);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Median({7}), 7);
}

TEST(StatisticsTest, NoSamplesIsNotMeasured) { EXPECT_EQ(Summarize({}).runs, 0); }

TEST(StatisticsTest, RatioIsOfPairs) {
  // The ratio of the medians would be 10 / 2.
  const Summary ratio = SummarizeRatio({1, 2, 100}, {4, 10, 300});
  EXPECT_EQ(ratio.median, 4);
  EXPECT_EQ(ratio.min, 3);
  EXPECT_EQ(ratio.max, 5);
}

TEST(StatisticsTest, RatioUsesThePairsThatExist) {
  EXPECT_EQ(SummarizeRatio({1, 2, 100}, {4}).runs, 1);
  EXPECT_EQ(SummarizeRatio({1, 2, 100}, {}).runs, 0);
}

TEST(InterleavedRunsTest, ContestantsTakeTurns) {
  std::string order;
  const Contestant contestants[] = {
      {.call = [&](size_t run) { order += "a" + std::to_string(run); }},
      {.call = [&](size_t run) { order += "b" + std::to_string(run); }}};
  const auto samples = RunInterleaved(
      contestants,
      {.runs = 2, .before_run = [&] { order += "("; }, .before_sample = [&] { order += "."; }});
  EXPECT_EQ(order, "(.a0.b0(.a1.b1");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].size(), 2u);
}

TEST(InterleavedRunsTest, SlowContestantStopsAfterItsTime) {
  const auto sleep = [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  const Contestant contestants[] = {{.call = [](size_t) {}},
                                    {.call = sleep, .most_total_us = 1'000}};
  const auto samples = RunInterleaved(contestants, {.runs = 4});
  EXPECT_EQ(samples[0].size(), 4u);
  EXPECT_EQ(samples[1].size(), 1u);
}

TEST(InterleavedRunsTest, ShortCallsAreRepeatedOnlyWhenAsked) {
  int calls = 0;
  const Contestant contestants[] = {{.call = [&](size_t) { ++calls; }}};
  RunInterleaved(contestants, {.runs = 3});
  EXPECT_EQ(calls, 3);
  RunInterleaved(contestants, {.runs = 3, .repeats_short_calls = true});
  EXPECT_GT(calls, 10);
}

}  // namespace
}  // namespace opst::bench
