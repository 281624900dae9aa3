// Tests that every way in which a hand-made plan can contradict itself is refused before an index
// is followed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/routing/check_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/plans.h"
#include "opst/ops/permute.h"

namespace opst {
namespace {

using testing::HasSubstr;

class CheckPlanTest : public testing::Test {
 protected:
  std::string RejectAfter(const std::function<void(RoutingPlan&)>& change) {
    RoutingPlan plan = MakePlan(context_, RandomSlots(6, 4, 2, 1, {.empty_share = 0.2}), 4);
    change(plan);
    return Rejection([&] { CheckPlan("op", plan); });
  }

  const Context context_ = MakeContext(1);
};

TEST_F(CheckPlanTest, PlansOfTheBuilderPass) {
  for (const int64_t tokens : {0, 1, 6, 40}) {
    const Slots slots = RandomSlots(tokens, 5, 3, 2, {.empty_share = 0.3, .skew = 1});
    CheckPlan("op", MakePlan(context_, slots, 5));
    CheckPlan("op", MakePlan(context_, slots, 5, {.capacity_factor = 0.5}));
    CheckPlan("op", MakePlan(context_, slots, 5, {.capacity_factor = 2, .pads_to_capacity = true}));
  }
}

TEST_F(CheckPlanTest, ArraysOfAnotherSize) {
  for (const auto& change : std::vector<std::function<void(RoutingPlan&)>>{
           [](RoutingPlan& plan) { plan.expert_ids.pop_back(); },
           [](RoutingPlan& plan) { plan.expert_weights.push_back(0); },
           [](RoutingPlan& plan) { plan.slot_to_row.clear(); },
           [](RoutingPlan& plan) { plan.num_tokens = 7; },
           [](RoutingPlan& plan) { plan.top_k = 3; }}) {
    EXPECT_THAT(RejectAfter(change), HasSubstr("must be [T,k]"));
  }
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) { plan.num_experts = 5; }), HasSubstr("[E+1]"));
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) { plan.expert_offsets.clear(); }),
              HasSubstr("[E+1]"));
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) { plan.num_tokens = -1; }),
              HasSubstr("must not be negative"));
  EXPECT_THAT(
      RejectAfter([](RoutingPlan& plan) { plan.num_tokens = std::numeric_limits<int64_t>::max(); }),
      HasSubstr("below 2^31"));
}

TEST_F(CheckPlanTest, OffsetsAndCountsThatDoNotFit) {
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) { plan.row_to_slot.push_back(0); }),
              HasSubstr("begin with 0 and end with R"));
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) { plan.expert_offsets.front() = 1; }),
              HasSubstr("begin with 0 and end with R"));
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) { plan.expert_offsets[1] = int64_t{1} << 40; }),
              HasSubstr("must fit between its offsets"));
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) { ++plan.expert_counts[2]; }),
              HasSubstr("must fit between its offsets"));
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) { plan.expert_counts[2] = -1; }),
              HasSubstr("must fit between its offsets"));
}

TEST_F(CheckPlanTest, RowsAndSlotsThatDoNotNameEachOther) {
  const std::string rule = "rows of the plan must name slots of their expert";
  for (const int32_t slot : {-1, -7, 12, std::numeric_limits<int32_t>::max()}) {
    EXPECT_THAT(RejectAfter([&](RoutingPlan& plan) { plan.row_to_slot[0] = slot; }),
                HasSubstr(rule));
  }
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) {
                std::swap(plan.row_to_slot.front(), plan.row_to_slot.back());
              }),
              HasSubstr(rule));
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) {
                plan.slot_to_row[static_cast<size_t>(plan.row_to_slot[1])] = 0;
              }),
              HasSubstr(rule));
  EXPECT_THAT(RejectAfter([](RoutingPlan& plan) {
                for (int32_t& row : plan.slot_to_row) row = row == -1 ? 1'000'000 : row;
              }),
              HasSubstr("must name a row of theirs or -1"));
}

TEST_F(CheckPlanTest, OperatorsRefuseSuchAPlan) {
  RoutingPlan plan = MakePlan(context_, RandomSlots(4, 3, 2, 1), 3);
  plan.row_to_slot[5] = 1 << 20;
  const Matrix x = Matrix::Random(DType::kF32, 4, 5, 1);
  Matrix rows(DType::kF32, 8, 5);
  Matrix out(DType::kF32, 4, 5);
  EXPECT_THAT(Rejection([&] { Permute(context_, x.view(), plan, rows.view()); }),
              HasSubstr("[permute] rows of the plan"));
  EXPECT_THAT(Rejection([&] { FinalizeRouting(context_, rows.view(), plan, {}, out.view()); }),
              HasSubstr("[finalize_routing] rows of the plan"));
}

}  // namespace
}  // namespace opst
