// Tests of the load tracker, also from several threads, and of the loss-free bias step.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/load_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"
#include "opst/ops/gating.h"

namespace opst {
namespace {

using testing::Each;
using testing::ElementsAre;

using Counts = std::vector<int64_t>;

TEST(LoadTrackerTest, UtilizationIsTheRunningLoadOverItsMean) {
  LoadTracker tracker(4, {.decay = 0.5});
  EXPECT_THAT(tracker.Utilization(), Each(1.0f));
  tracker.Observe(Counts{8, 0, 4, 4});
  EXPECT_THAT(tracker.Utilization(), ElementsAre(2, 0, 1, 1));
  tracker.Observe(Counts{0, 12, 0, 0});  // load 2, 6, 1, 1
  EXPECT_THAT(tracker.Utilization(), ElementsAre(0.8f, 2.4f, 0.4f, 0.4f));
}

TEST(LoadTrackerTest, WithoutDecayOnlyTheLastBatchCounts) {
  LoadTracker tracker(2, {.decay = 0});
  tracker.Observe(Counts{1000000, 0});
  tracker.Observe(Counts{0, 1});
  EXPECT_THAT(tracker.Utilization(), ElementsAre(0, 2));
  tracker.Observe(Counts{0, 0});
  EXPECT_THAT(tracker.Utilization(), Each(1.0f));
}

TEST(LoadTrackerTest, ARestoredTrackerGoesOnWithTheSameBits) {
  std::mt19937 random(1);
  LoadTracker first(5);
  const auto observe = [&random](LoadTracker& tracker) {
    Counts counts(5);
    for (int64_t& count : counts) count = static_cast<int64_t>(random() % 100);
    tracker.Observe(counts);
  };
  for (int i = 0; i < 50; ++i) observe(first);
  LoadTracker second(5);
  second.Restore(first.Save());
  std::mt19937 same = random;
  for (int i = 0; i < 50; ++i) observe(first);
  random = same;
  for (int i = 0; i < 50; ++i) observe(second);
  EXPECT_EQ(first.Save(), second.Save());
}

TEST(LoadTrackerTest, SeveralThreadsLoseNoBatch) {
  LoadTracker tracker(2, {.decay = 0.5});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 1000; ++round) {
        tracker.Observe(Counts{3, 1});
        for (const float u : tracker.Utilization()) EXPECT_TRUE(u == 1.5f || u == 0.5f);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(tracker.Utilization(), ElementsAre(1.5f, 0.5f));
}

// Load-aware selection evens out a router that sends everything to one expert.
TEST(LoadTrackerTest, SelectionByItEvensOutASkewedRouter) {
  const Context context = MakeContext(1);
  LoadTracker tracker(4, {.decay = 0.9});
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  // Utilization of expert 0 after many batches.
  const auto settle = [&](float ratio) {
    tracker.Restore(std::vector<double>(4, 0.0));
    for (int batch = 0; batch < 60; ++batch) {
      std::vector<float> logits(64 * 4);
      for (size_t i = 0; i < logits.size(); ++i) logits[i] = normal(random) + (i % 4 == 0 ? 1 : 0);
      const std::vector<float> utilization = tracker.Utilization();
      GatingOptions options{.top_k = 1};
      options.load_balance_ratio = ratio;
      options.utilization = utilization;
      const RoutingPlan plan =
          Route(context, ConstTensorView(logits.data(), Shape{64, 4}), options);
      tracker.Observe(plan.expert_counts);
    }
    return tracker.Utilization()[0];
  };
  EXPECT_GT(settle(0), 1.8f);
  EXPECT_LT(settle(2), 1.5f);
}

TEST(LoadTrackerTest, RefusesWhatIsNoLoad) {
  EXPECT_EQ(Rejection([] { LoadTracker(0); }),
            "[load_balance] num_experts must be positive; got 0");
  EXPECT_EQ(Rejection([] { LoadTracker(2, {.decay = 1}); }),
            "[load_balance] decay must be at least 0 and below 1; got 1");
  LoadTracker tracker(2);
  EXPECT_EQ(Rejection([&] { tracker.Observe(Counts{1}); }),
            "[load_balance] expert_counts must have one value per expert; got 1 for 2 experts");
  EXPECT_EQ(Rejection([&] {
              tracker.Observe(Counts{1, -1});
            }),
            "[load_balance] expert_counts must not be negative, nor their sum 2^63; got -1 at [1]");
  EXPECT_EQ(Rejection([&] { tracker.Restore(std::vector<double>(3)); }),
            "[load_balance] a saved load must have one value per expert; got 3 for 2 experts");
  EXPECT_EQ(Rejection([&] {
              tracker.Restore(std::vector<double>{0, -1});
            }),
            "[load_balance] a saved load must be finite and not negative; got -1 at [1]");
}

TEST(SelectionBiasTest, BusyExpertsGoDownAndIdleOnesUp) {
  std::vector<float> bias = {1, 1, 1, 1};
  UpdateSelectionBias(Counts{5, 1, 3, 3}, {.rate = 0.25f}, bias);
  EXPECT_THAT(bias, ElementsAre(0.75f, 1.25f, 1, 1));
  bias = {0, 0, 0, 0};
  UpdateSelectionBias(Counts{9, 1, 1, 1}, {.rate = 0.25f, .centers = false}, bias);
  EXPECT_THAT(bias, ElementsAre(-0.25f, 0.25f, 0.25f, 0.25f));
  bias = {0, 0, 0, 0};
  UpdateSelectionBias(Counts{9, 1, 1, 1}, {.rate = 0.25f}, bias);  // the mean step is 0.125
  EXPECT_THAT(bias, ElementsAre(-0.375f, 0.125f, 0.125f, 0.125f));
}

// Against the mean in long double, whose 64 bits hold these sums.
TEST(SelectionBiasTest, ComparesCountsExactly) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 1000; ++round) {
    const size_t n = random() % 9 + 1;
    const int64_t base = static_cast<int64_t>(random() % (uint64_t{1} << 58));
    Counts counts(n);
    for (int64_t& count : counts) count = base + static_cast<int64_t>(random() % 3);
    int64_t excess = 0;  // over base: small and exact
    for (const int64_t count : counts) excess += count - base;
    std::vector<float> bias(n, 0.0f);
    UpdateSelectionBias(counts, {.rate = 1, .centers = false}, bias);
    for (size_t i = 0; i < n; ++i) {
      const int64_t scaled = (counts[i] - base) * static_cast<int64_t>(n);
      EXPECT_EQ(bias[i], scaled < excess ? 1 : scaled > excess ? -1 : 0) << i;
    }
  }
}

TEST(SelectionBiasTest, RefusesWhatDoesNotFit) {
  std::vector<float> bias = {1, 2};
  EXPECT_EQ(Rejection([&] { UpdateSelectionBias(Counts{1}, {}, bias); }),
            "[load_balance] expert_counts must have one value per expert; got 1 for 2 experts");
  EXPECT_EQ(Rejection([&] { UpdateSelectionBias(Counts{}, {}, {}); }),
            "[load_balance] num_experts must be positive; got 0");
  EXPECT_EQ(Rejection([&] {
              UpdateSelectionBias(Counts{std::numeric_limits<int64_t>::max(), 1}, {}, bias);
            }),
            "[load_balance] expert_counts must not be negative, nor their sum 2^63; got 1 at [1]");
  EXPECT_EQ(Rejection([&] {
              UpdateSelectionBias(Counts{1, 1}, {.rate = -1}, bias);
            }),
            "[load_balance] rate must be finite and not negative; got -1");
  EXPECT_THAT(bias, ElementsAre(1, 2));
}

}  // namespace
}  // namespace opst
