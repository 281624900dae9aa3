// Tests of plans from routing maps, of plans of some experts only, and of the CSR text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/testing/errors.h"
#include "ops/routing/check_plan.h"
#include "ops/testing/contexts.h"
#include "ops/testing/plans.h"
#include "opst/routing_plan.h"

namespace opst {
namespace {

using testing::ElementsAre;

class RoutingMapTest : public testing::Test {
 protected:
  const Context context_ = MakeContext(1);
};

TEST_F(RoutingMapTest, AMapGivesThePlanOfItsIds) {
  const std::vector<uint8_t> map = {0, 1, 1,  //
                                    0, 0, 0,  //
                                    7, 0, 0};
  const std::vector<float> weights = {9, 0.5f, 0.25f, 9, 9, 9, 2, 9, 9};
  const RoutingPlan plan =
      BuildRoutingPlanFromMap(context_, {map.data(), Shape{3, 3}}, {weights.data(), Shape{3, 3}});
  EXPECT_EQ(plan.top_k, 2);
  EXPECT_THAT(plan.expert_ids, ElementsAre(1, 2, -1, -1, 0, -1));
  EXPECT_THAT(plan.expert_weights, ElementsAre(0.5f, 0.25f, 0, 0, 2, 0));
  EXPECT_THAT(plan.expert_counts, ElementsAre(1, 1, 1));
  const RoutingPlan ones = BuildRoutingPlanFromMap(context_, {map.data(), Shape{3, 3}}, {});
  EXPECT_THAT(ones.expert_weights, ElementsAre(1, 1, 0, 0, 1, 0));
}

TEST_F(RoutingMapTest, RandomMapsSendEveryPairOnce) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    const int64_t tokens = random() % 20;
    const int64_t experts = 1 + random() % 9;
    std::vector<uint8_t> map(static_cast<size_t>(tokens * experts));
    for (uint8_t& bit : map) bit = random() % 3 == 0;
    const RoutingPlan plan =
        BuildRoutingPlanFromMap(context_, {map.data(), DType::kBool, Shape{tokens, experts}}, {});
    CheckPlan("test", plan);
    std::vector<uint8_t> back(map.size());
    for (int64_t expert = 0; expert < experts; ++expert) {
      const auto begin = plan.expert_offsets[static_cast<size_t>(expert)];
      const auto end = plan.expert_offsets[static_cast<size_t>(expert) + 1];
      for (int64_t row = begin; row < end; ++row) {
        const int64_t token = plan.row_to_slot[static_cast<size_t>(row)] / plan.top_k;
        ++back[static_cast<size_t>(token * experts + expert)];
      }
    }
    ASSERT_EQ(back, map) << seed;
  }
}

TEST_F(RoutingMapTest, WrongMapsAreNamed) {
  const std::vector<float> floats(6);
  EXPECT_EQ(Rejection([&] {
              BuildRoutingPlanFromMap(context_, {floats.data(), Shape{2, 3}}, {});
            }),
            "[routing_map] routing_map must be [T,E] bool, u8 or i8; got [2,3] f32");
  const std::vector<uint8_t> map(6);
  EXPECT_EQ(
      Rejection([&] {
        BuildRoutingPlanFromMap(context_, {map.data(), Shape{2, 3}}, {floats.data(), Shape{3, 2}});
      }),
      "[routing_map] weights must be [T,E] f32, or absent; got [3,2] f32 for a map [2,3] u8");
}

// The shares of several ranks are the whole plan, cut.
TEST_F(RoutingMapTest, ActiveExpertsAreTheShareOfOneRank) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const Slots slots = RandomSlots(1 + seed % 23, 6, 3, seed, {.empty_share = 0.1});
    const RoutingPlanOptions whole_options{.capacity_factor = seed % 2 == 0 ? 0.0 : 0.8};
    const RoutingPlan whole = MakePlan(context_, slots, 6, whole_options);
    std::vector<int32_t> rows;
    int64_t dropped = 0;
    for (const ExpertRange range : {ExpertRange{0, 2}, ExpertRange{2, 5}, ExpertRange{5, 6}}) {
      RoutingPlanOptions options = whole_options;
      options.active_experts = range;
      const RoutingPlan part = MakePlan(context_, slots, 6, options);
      CheckPlan("test", part);
      for (int64_t expert = 0; expert < 6; ++expert) {
        const bool is_active = range.begin <= expert && expert < range.end;
        ASSERT_EQ(part.expert_counts[static_cast<size_t>(expert)],
                  is_active ? whole.expert_counts[static_cast<size_t>(expert)] : 0);
      }
      rows.insert(rows.end(), part.row_to_slot.begin(), part.row_to_slot.end());
      dropped += part.num_dropped;
    }
    ASSERT_EQ(rows, whole.row_to_slot);
    ASSERT_EQ(dropped, whole.num_dropped);
  }
  for (const ExpertRange range : {ExpertRange{2, 2}, ExpertRange{-1, 2}, ExpertRange{3, 7}}) {
    EXPECT_THAT(
        Rejection(
            [&] { MakePlan(context_, RandomSlots(2, 6, 1, 1), 6, {.active_experts = range}); }),
        testing::StartsWith("[routing_plan] active_experts must be a range within 0..6; got "));
  }
}

TEST_F(RoutingMapTest, CsrTextShowsRowsPaddingAndHowManyFollow) {
  const Slots slots{3, 2, {0, 1, 0, -1, 0, 1}, {0.5f, 0.25f, 1, 1, 2, 3}};
  EXPECT_EQ(FormatAsCsr(MakePlan(context_, slots, 3)),
            "expert 0 [0,3): 0.0:0.5 1.0:1 2.0:2\n"
            "expert 1 [3,5): 0.1:0.25 2.1:3\n"
            "expert 2 [5,5):\n");
  const RoutingPlan padded =
      MakePlan(context_, slots, 3, {.capacity_factor = 1, .pads_to_capacity = true});
  EXPECT_EQ(FormatAsCsr(padded, 1),
            "expert 0 [0,2): 0.0:0.5 and 1 more\n"
            "expert 1 [2,4): 0.1:0.25 and 1 more\n"
            "expert 2 [4,6): - and 1 more\n");
}

}  // namespace
}  // namespace opst
