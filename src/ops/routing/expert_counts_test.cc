// Tests of counts, running sums, pairs and the order of rows from several ranks.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/expert_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"

namespace opst {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

ConstTensorView View(const std::vector<int32_t>& ids) {
  return {ids.data(), Shape{static_cast<int64_t>(ids.size())}};
}

TEST(ExpertCountsTest, CountsSumsAndPairs) {
  const auto counts = CountExperts(View({3, 0, 3, -1, 1, 3}), 5);
  EXPECT_THAT(counts, ElementsAre(1, 1, 0, 3, 0));
  EXPECT_THAT(RunningSums(counts), ElementsAre(1, 2, 2, 5, 5));
  EXPECT_THAT(NonEmptyExperts(counts), ElementsAre(Pair(0, 1), Pair(1, 1), Pair(3, 3)));
  EXPECT_THAT(CountExperts(View({}), 2), ElementsAre(0, 0));
  EXPECT_THAT(RunningSums({}), IsEmpty());
}

TEST(ExpertCountsTest, BadCountsAreNamed) {
  EXPECT_EQ(Rejection([] {
              CountExperts(View({0, 5}), 5);
            }),
            "[count_experts] expert ids must be -1 or 0..4; got invalid expert index 5 at [1]");
  EXPECT_EQ(Rejection([] { CountExperts(View({0}), 0); }),
            "[count_experts] num_experts must be positive; got 0");
  const std::vector<int64_t> negative = {1, -1};
  EXPECT_EQ(Rejection([&] { RunningSums(negative); }),
            "[running_sums] counts must not be negative and their sum below 2^63; got count -1 at "
            "[1]");
  const std::vector<int64_t> huge = {std::numeric_limits<int64_t>::max(), 1};
  EXPECT_EQ(Rejection([&] { RunningSums(huge); }),
            "[running_sums] counts must not be negative and their sum below 2^63; got count 1 at "
            "[1]");
}

// Rows carry (rank, expert, number): after the move they must be sorted by (expert, rank, number).
TEST(ReRoutingTest, RowsStandByExpertThenRankInAThousandRandomCases) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    const int64_t ranks = random() % 5;
    const int64_t experts = random() % 7;
    std::vector<int64_t> counts(static_cast<size_t>(ranks * experts));
    for (int64_t& count : counts) count = random() % 4;
    struct Row {
      int64_t expert, rank, number;
      auto operator<=>(const Row&) const = default;
    };
    std::vector<Row> arrived;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      for (int64_t expert = 0; expert < experts; ++expert) {
        const int64_t count = counts[static_cast<size_t>(rank * experts + expert)];
        for (int64_t number = 0; number < count; ++number) {
          arrived.push_back({expert, rank, number});
        }
      }
    }
    const std::vector<int32_t> narrow(counts.begin(), counts.end());
    const ReRouting order = BuildReRouting({counts.data(), Shape{ranks, experts}});
    EXPECT_EQ(BuildReRouting({narrow.data(), Shape{ranks, experts}}).row_sources,
              order.row_sources);
    std::vector<Row> moved;
    for (const int32_t source : order.row_sources) {
      moved.push_back(arrived.at(static_cast<size_t>(source)));
    }
    ASSERT_TRUE(std::is_sorted(moved.begin(), moved.end()));
    ASSERT_EQ(moved.size(), arrived.size());
    for (int64_t expert = 0; expert < experts; ++expert) {
      ASSERT_EQ(order.expert_counts[static_cast<size_t>(expert)],
                std::count_if(moved.begin(), moved.end(),
                              [&](const Row& row) { return row.expert == expert; }));
    }
  }
}

TEST(ReRoutingTest, BadCountsAreNamed) {
  const std::vector<int64_t> negative = {1, 2, -3, 4};
  EXPECT_EQ(Rejection([&] {
              BuildReRouting({negative.data(), Shape{2, 2}});
            }),
            "[re_routing] counts must not be negative and their sum below 2^31; got count -3 at "
            "[1,0]");
  const std::vector<int64_t> huge = {int64_t{1} << 31};
  EXPECT_EQ(Rejection([&] {
              BuildReRouting({huge.data(), Shape{1, 1}});
            }),
            "[re_routing] counts must not be negative and their sum below 2^31; got count "
            "2147483648 at [0,0]");
  EXPECT_EQ(Rejection([&] {
              BuildReRouting({huge.data(), Shape{1}});
            }),
            "[re_routing] counts must be [P,E] i32 or i64; got [1] i64");
}

}  // namespace
}  // namespace opst
