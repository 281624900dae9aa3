// Tests of the routing plan's arrays against a construction by plain loops, and of its special
// cases.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/routing_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/testing/contexts.h"
#include "ops/testing/plans.h"

namespace opst {
namespace {

using testing::Each;
using testing::ElementsAre;

// The plan's definition, the slow way: capacity first, then one scan of all slots per expert.
RoutingPlan PlanByDefinition(const Slots& slots, int64_t num_experts, int64_t capacity,
                             bool pads_to_capacity) {
  RoutingPlan plan;
  plan.expert_ids = slots.ids;
  plan.expert_weights = slots.weights;
  std::vector<int64_t> taken(static_cast<size_t>(num_experts));
  for (int64_t j = 0; j < slots.top_k; ++j) {
    for (int64_t token = 0; token < slots.num_tokens; ++token) {
      const auto slot = static_cast<size_t>(token * slots.top_k + j);
      int32_t& id = plan.expert_ids[slot];
      if (id >= 0 && taken[static_cast<size_t>(id)]++ >= capacity) {
        id = -1;
        ++plan.num_dropped;
      }
      if (id < 0) plan.expert_weights[slot] = 0;
    }
  }
  plan.slot_to_row.assign(slots.ids.size(), -1);
  plan.expert_offsets.push_back(0);
  for (int32_t expert = 0; expert < num_experts; ++expert) {
    int64_t count = 0;
    for (size_t slot = 0; slot < slots.ids.size(); ++slot) {
      if (plan.expert_ids[slot] != expert) continue;
      plan.slot_to_row[slot] = static_cast<int32_t>(plan.row_to_slot.size());
      plan.row_to_slot.push_back(static_cast<int32_t>(slot));
      ++count;
    }
    plan.expert_counts.push_back(count);
    if (pads_to_capacity) {
      plan.row_to_slot.resize(plan.row_to_slot.size() + static_cast<size_t>(capacity - count), -1);
    }
    plan.expert_offsets.push_back(plan.num_rows());
  }
  return plan;
}

void ExpectSamePlan(const RoutingPlan& got, const RoutingPlan& wanted) {
  EXPECT_EQ(got.expert_ids, wanted.expert_ids);
  EXPECT_EQ(got.expert_weights, wanted.expert_weights);
  EXPECT_EQ(got.expert_counts, wanted.expert_counts);
  EXPECT_EQ(got.expert_offsets, wanted.expert_offsets);
  EXPECT_EQ(got.row_to_slot, wanted.row_to_slot);
  EXPECT_EQ(got.slot_to_row, wanted.slot_to_row);
  EXPECT_EQ(got.num_dropped, wanted.num_dropped);
}

class RoutingPlanTest : public testing::Test {
 protected:
  const Context context_ = MakeContext(2);
};

TEST_F(RoutingPlanTest, AllOptionsEqualTheDefinition) {
  constexpr int64_t kDropless = std::numeric_limits<int64_t>::max();
  uint32_t seed = 0;
  for (const int64_t tokens : {1, 2, 7, 64, 100}) {
    for (const int64_t experts : {1, 2, 5, 8, 64}) {
      for (const int64_t top_k : {1, 2, 5, 8}) {
        if (top_k > experts) continue;
        for (const SlotOptions slot_options : {SlotOptions{0, 0}, SlotOptions{0.3, 4}}) {
          const Slots slots = RandomSlots(tokens, experts, top_k, ++seed, slot_options);
          ExpectSamePlan(MakePlan(context_, slots, experts),
                         PlanByDefinition(slots, experts, kDropless, false));
          for (const double factor : {0.25, 1.0, 1.25, 2.0, 1e300}) {
            for (const int64_t min_capacity : {0, 4, 1000}) {
              for (const bool pads : {false, true}) {
                SCOPED_TRACE(testing::Message()
                             << "T " << tokens << ", E " << experts << ", k " << top_k
                             << ", factor " << factor << ", min " << min_capacity);
                const double mean =
                    static_cast<double>(tokens * top_k) / static_cast<double>(experts);
                const double wanted =
                    std::max(std::ceil(factor * mean), static_cast<double>(min_capacity));
                const auto capacity =
                    static_cast<int64_t>(std::min(wanted, static_cast<double>(tokens)));
                const RoutingPlan plan =
                    MakePlan(context_, slots, experts, {factor, min_capacity, pads});
                ExpectSamePlan(plan, PlanByDefinition(slots, experts, capacity, pads));
                EXPECT_EQ(plan.num_tokens, tokens);
                EXPECT_EQ(plan.num_experts, experts);
                EXPECT_EQ(plan.top_k, top_k);
                if (HasFailure()) return;
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(RoutingPlanTest, RowsOfAnExpertStandInSlotOrder) {
  const Slots slots{4, 2, {1, 0, 0, 1, 1, 2, 2, 1}, {1, 2, 3, 4, 5, 6, 7, 8}};
  const RoutingPlan plan = MakePlan(context_, slots, 4);
  EXPECT_THAT(plan.expert_counts, ElementsAre(2, 4, 2, 0));
  EXPECT_THAT(plan.expert_offsets, ElementsAre(0, 2, 6, 8, 8));
  EXPECT_THAT(plan.row_to_slot, ElementsAre(1, 2, 0, 3, 4, 7, 5, 6));
  EXPECT_THAT(plan.slot_to_row, ElementsAre(2, 0, 1, 3, 4, 6, 7, 5));
  EXPECT_EQ(plan.num_rows(), 8);
}

// All first choices in token order, then all second choices.
TEST_F(RoutingPlanTest, FullExpertsDropSecondChoicesBeforeFirst) {
  const Slots slots{4, 2, {1, 0, 2, 0, 0, 1, 0, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
  const RoutingPlan plan = MakePlan(context_, slots, 4, {.capacity_factor = 1});
  EXPECT_THAT(plan.expert_ids, ElementsAre(1, -1, 2, -1, 0, 1, 0, 2));
  EXPECT_THAT(plan.expert_weights, ElementsAre(1, 0, 3, 0, 5, 6, 7, 8));
  EXPECT_EQ(plan.num_dropped, 2);
  EXPECT_THAT(plan.expert_counts, ElementsAre(2, 2, 2, 0));
  EXPECT_THAT(plan.slot_to_row, ElementsAre(2, -1, 4, -1, 0, 3, 1, 5));
}

TEST_F(RoutingPlanTest, PaddingFillsEveryExpertToTheCapacity) {
  const Slots slots{4, 1, {2, 0, 2, 2}, {1, 2, 3, 4}};
  const RoutingPlan plan =
      MakePlan(context_, slots, 3, {.capacity_factor = 1.5, .pads_to_capacity = true});
  EXPECT_THAT(plan.expert_counts, ElementsAre(1, 0, 2));
  EXPECT_THAT(plan.expert_offsets, ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(plan.row_to_slot, ElementsAre(1, -1, -1, -1, 0, 2));
  EXPECT_EQ(plan.num_dropped, 1);
  EXPECT_EQ(plan.expert_ids[3], -1);
}

TEST_F(RoutingPlanTest, CapacityIsRoundedUpAndNeverAboveTheTokens) {
  const auto capacity = [&](int64_t tokens, int64_t experts, int64_t top_k, double factor) {
    const Slots slots = RandomSlots(tokens, experts, top_k, 1);
    const RoutingPlanOptions options{.capacity_factor = factor, .pads_to_capacity = true};
    return MakePlan(context_, slots, experts, options).num_rows() / experts;
  };
  EXPECT_EQ(capacity(10, 4, 1, 1.0), 3);     // 2.5
  EXPECT_EQ(capacity(100, 10, 1, 1.1), 11);  // 10 · 1.1, not 100 · 1.1 / 10
  EXPECT_EQ(capacity(8, 4, 2, 1.25), 5);
  EXPECT_EQ(capacity(3, 2, 2, 7.5), 3);
  EXPECT_EQ(capacity(3, 100, 1, 1e-9), 1);
  EXPECT_EQ(capacity(5, 2, 2, 1.7976931348623157e308), 5);
}

TEST_F(RoutingPlanTest, EmptySlotsAreNeitherCountedNorDropped) {
  const Slots slots{3, 2, {-1, 0, -1, -1, 0, -1}, {9, 1, 9, 9, 2, 9}};
  const RoutingPlan plan = MakePlan(context_, slots, 2);
  EXPECT_THAT(plan.expert_counts, ElementsAre(2, 0));
  EXPECT_THAT(plan.row_to_slot, ElementsAre(1, 4));
  EXPECT_THAT(plan.slot_to_row, ElementsAre(-1, 0, -1, -1, 1, -1));
  EXPECT_THAT(plan.expert_weights, ElementsAre(0, 1, 0, 0, 2, 0));
  EXPECT_EQ(plan.num_dropped, 0);
}

TEST_F(RoutingPlanTest, NoTokensGiveZeroCounts) {
  for (const double factor : {0.0, 1.0}) {
    for (const bool pads : {false, true}) {
      if (pads && factor == 0) continue;
      const RoutingPlan plan = MakePlan(context_, Slots{0, 2, {}, {}}, 4,
                                        {.capacity_factor = factor, .pads_to_capacity = pads});
      EXPECT_THAT(plan.expert_counts, ElementsAre(0, 0, 0, 0));
      EXPECT_THAT(plan.expert_offsets, ElementsAre(0, 0, 0, 0, 0));
      EXPECT_EQ(plan.num_rows(), 0);
    }
  }
}

TEST_F(RoutingPlanTest, NoSlotsPerTokenGiveNoRows) {
  const RoutingPlan plan = MakePlan(context_, Slots{5, 0, {}, {}}, 3);
  EXPECT_EQ(plan.num_tokens, 5);
  EXPECT_EQ(plan.num_rows(), 0);
  EXPECT_THAT(plan.expert_counts, Each(0));
}

// More assignments than 16-bit counters hold.
TEST_F(RoutingPlanTest, SeventyThousandTokensOnOneExpert) {
  constexpr int64_t kTokens = 70'000;
  Slots slots{kTokens, 1, std::vector<int32_t>(kTokens, 0), std::vector<float>(kTokens, 1)};
  const RoutingPlan plan = MakePlan(context_, slots, 4);
  EXPECT_THAT(plan.expert_counts, ElementsAre(kTokens, 0, 0, 0));
  EXPECT_THAT(plan.expert_offsets, ElementsAre(0, kTokens, kTokens, kTokens, kTokens));
  for (int32_t row = 0; row < kTokens; ++row) {
    ASSERT_EQ(plan.row_to_slot[static_cast<size_t>(row)], row);
    ASSERT_EQ(plan.slot_to_row[static_cast<size_t>(row)], row);
  }
}

TEST_F(RoutingPlanTest, ATokenMayNameAnExpertTwice) {
  const Slots slots{2, 3, {1, 1, 0, 1, 1, 1}, {1, 2, 3, 4, 5, 6}};
  const RoutingPlan plan = MakePlan(context_, slots, 2);
  EXPECT_THAT(plan.expert_counts, ElementsAre(1, 5));
  EXPECT_THAT(plan.row_to_slot, ElementsAre(2, 0, 1, 3, 4, 5));
}

TEST_F(RoutingPlanTest, CapacityAboveTheAdviceIsNotedInTheLog) {
  std::vector<std::string> lines;
  const Context context = MakeLoggingContext(lines, "info");
  lines.clear();
  const Slots slots = RandomSlots(8, 4, 2, 1);
  MakePlan(context, slots, 4, {.capacity_factor = 1.5});
  EXPECT_TRUE(lines.empty());
  MakePlan(context, slots, 4, {.capacity_factor = 2});
  EXPECT_THAT(lines,
              ElementsAre("[routing_plan] capacity_factor 2 is above 1.5; buffers grow with it"));
}

}  // namespace
}  // namespace opst
