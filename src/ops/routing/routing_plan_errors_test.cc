// Tests of what the routing plan refuses, and of the texts; and of Route, gating and plan in one.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"
#include "ops/testing/plans.h"
#include "opst/ops/gating.h"
#include "opst/routing_plan.h"

namespace opst {
namespace {

using testing::ElementsAre;

class RoutingPlanErrorsTest : public testing::Test {
 protected:
  std::string Reject(const Slots& slots, int64_t num_experts,
                     const RoutingPlanOptions& options = {}) {
    return Rejection([&] { MakePlan(context_, slots, num_experts, options); });
  }

  const Context context_ = MakeContext(1);
  const Slots slots_ = RandomSlots(4, 4, 2, 1);
};

// The sentinel "one past the end" of other libraries included: adapters map it to -1.
TEST_F(RoutingPlanErrorsTest, InvalidIdsAreNamedWithTheirPlace) {
  for (const int32_t id : {4, -2, 1 << 30, std::numeric_limits<int32_t>::min()}) {
    Slots slots = slots_;
    slots.ids[5] = id;
    EXPECT_EQ(
        Reject(slots, 4),
        "[routing_plan] expert ids must be -1 or 0..3 (was the gate normalised?); got invalid "
        "expert index " +
            std::to_string(id) + " at [2,1]");
  }
}

TEST_F(RoutingPlanErrorsTest, ShapesAndTypesThatDiffer) {
  const ConstTensorView ids = slots_.id_view();
  const ConstTensorView weights = slots_.weight_view();
  const auto reject = [&](ConstTensorView i, ConstTensorView w) {
    return Rejection([&] { BuildRoutingPlan(context_, i, w, 4); });
  };
  EXPECT_EQ(reject(weights, weights),
            "[routing_plan] expert_ids must be contiguous [T,k] i32; got [4,2] f32");
  EXPECT_EQ(reject({slots_.ids.data(), Shape{8}}, weights),
            "[routing_plan] expert_ids must be contiguous [T,k] i32; got [8] i32");
  EXPECT_EQ(reject({slots_.ids.data(), DType::kI32, Shape{2, 2}, 4}, weights),
            "[routing_plan] expert_ids must be contiguous [T,k] i32; got [2,2] i32");
  EXPECT_EQ(reject(ids, ids),
            "[routing_plan] expert_weights must be contiguous f32 of the ids' shape; got [4,2] i32 "
            "for ids [4,2] i32");
  EXPECT_EQ(reject(ids, {slots_.weights.data(), Shape{2, 4}}),
            "[routing_plan] expert_weights must be contiguous f32 of the ids' shape; got [2,4] f32 "
            "for ids [4,2] i32");
}

TEST_F(RoutingPlanErrorsTest, ArraysThatAreNotTimesK) {
  const auto reject = [&](size_t num_ids, size_t num_weights, int64_t top_k) {
    return Rejection([&] {
      BuildRoutingPlan(context_, std::vector<int32_t>(num_ids), std::vector<float>(num_weights),
                       top_k, 4);
    });
  };
  const std::string rule =
      "[routing_plan] expert_ids and expert_weights must have T·k values each; got ";
  EXPECT_EQ(reject(6, 4, 2), rule + "6 and 4 for top_k 2");
  EXPECT_EQ(reject(5, 5, 2), rule + "5 and 5 for top_k 2");
  EXPECT_EQ(reject(4, 4, 0), rule + "4 and 4 for top_k 0");
}

TEST_F(RoutingPlanErrorsTest, NoExperts) {
  EXPECT_EQ(Reject(slots_, 0), "[routing_plan] num_experts must be positive; got 0");
  EXPECT_EQ(Reject(slots_, -3), "[routing_plan] num_experts must be positive; got -3");
  EXPECT_EQ(Reject(slots_, int64_t{1} << 34),
            "[routing_plan] num_experts must be below 2^31; got 17179869184");
}

// Checked before a byte is read: the views below have no memory.
TEST_F(RoutingPlanErrorsTest, SlotsBeyond31Bits) {
  const Shape shape{int64_t{1} << 30, 2};
  const ConstTensorView ids(static_cast<const int32_t*>(nullptr), shape);
  const ConstTensorView weights(static_cast<const float*>(nullptr), shape);
  EXPECT_EQ(Rejection([&] { BuildRoutingPlan(context_, ids, weights, 4); }),
            "[routing_plan] T·k must be below 2^31; got ids [1073741824,2]");
}

TEST_F(RoutingPlanErrorsTest, PaddedRowsBeyond31Bits) {
  const Slots slots = RandomSlots(3, 1, 1, 1);
  const std::string text = Reject(
      slots, int64_t{1} << 30, {.capacity_factor = 1, .min_capacity = 3, .pads_to_capacity = true});
  EXPECT_EQ(text, "[routing_plan] E·capacity must be below 2^31; got 1073741824 experts of 3");
}

TEST_F(RoutingPlanErrorsTest, CapacitiesThatMakeNoSense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double factor : {-1.0, nan, infinity, -infinity}) {
    EXPECT_THAT(Reject(slots_, 4, {.capacity_factor = factor}),
                testing::StartsWith(
                    "[routing_plan] capacity_factor must be finite and not negative; got "));
  }
  EXPECT_EQ(Reject(slots_, 4, {.capacity_factor = 1, .min_capacity = -1}),
            "[routing_plan] min_capacity must not be negative; got -1");
  EXPECT_EQ(Reject(slots_, 4, {.pads_to_capacity = true}),
            "[routing_plan] padding needs a capacity_factor above 0; got 0");
}

TEST(RouteTest, IsGatingAndThenThePlan) {
  const Context context = MakeContext(1);
  const std::vector<float> logits = {1, 2, 3, 4, 4, 3, 2, 1, 0, 9, 8, 0};
  const RoutingPlan plan =
      Route(context, ConstTensorView(logits.data(), Shape{3, 4}), {.top_k = 2});
  EXPECT_THAT(plan.expert_ids, ElementsAre(3, 2, 0, 1, 1, 2));
  EXPECT_THAT(plan.expert_counts, ElementsAre(1, 2, 2, 1));
  EXPECT_NEAR(plan.expert_weights[0], 0.731059, 1e-6);
  EXPECT_EQ(plan.num_empty_rows, 0);
}

TEST(RouteTest, EmptyRowsAreCountedInThePlan) {
  const Context context = MakeContext(1, {{"log", "error"}});
  std::vector<float> logits(3 * 4, -std::numeric_limits<float>::infinity());
  logits[5] = 1;
  const RoutingPlan plan =
      Route(context, ConstTensorView(logits.data(), Shape{3, 4}), {.top_k = 2});
  EXPECT_EQ(plan.num_empty_rows, 2);
  EXPECT_THAT(plan.expert_ids, ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_THAT(plan.expert_weights, ElementsAre(0, 0, 1, 0, 0, 0));
}

TEST(RouteTest, ChosenExpertsAreNeverFewerThanTopK) {
  const Context context = MakeContext(1);
  std::vector<float> logits(100 * 8);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 37 % 101);
  const RoutingPlan plan =
      Route(context, ConstTensorView(logits.data(), Shape{100, 8}), {.top_k = 3});
  EXPECT_EQ(plan.num_rows(), 300);
  EXPECT_EQ(plan.num_dropped, 0);
}

// Two of four tokens count: the capacity is 1 · 2 · 1 / 2, not 1 · 4 · 1 / 2.
TEST(RouteTest, PaddingLeavesCountsAndCapacity) {
  const Context context = MakeContext(1);
  const std::vector<float> logits = {9, 0, 9, 0, 9, 0, 9, 0};
  const std::vector<uint8_t> is_padding = {1, 0, 1, 0};
  GatingOptions options{.top_k = 1};
  options.is_padding = is_padding;
  const RoutingPlan plan =
      Route(context, ConstTensorView(logits.data(), Shape{4, 2}), options, {.capacity_factor = 1});
  EXPECT_THAT(plan.expert_ids, ElementsAre(-1, 0, -1, -1));
  EXPECT_THAT(plan.expert_counts, ElementsAre(1, 0));
  EXPECT_EQ(plan.num_dropped, 1);
  const RoutingPlan padded = BuildRoutingPlan(
      context, std::vector<int32_t>{0, 1, 0, 1}, std::vector<float>{1, 2, 3, 4}, 1, 2,
      {.capacity_factor = 1, .pads_to_capacity = true, .is_padding = is_padding});
  EXPECT_THAT(padded.row_to_slot, ElementsAre(-1, 1));
  EXPECT_THAT(padded.expert_weights, ElementsAre(0, 2, 0, 0));
  const std::vector<uint8_t> flags(3);
  EXPECT_EQ(Rejection([&] {
              BuildRoutingPlan(context, std::vector<int32_t>{0}, std::vector<float>{1}, 1, 2,
                               {.is_padding = flags});
            }),
            "[routing_plan] is_padding must have one value per token; got 3 for 1 tokens");
}

TEST(RouteTest, CapacityOptionsReachThePlan) {
  const Context context = MakeContext(1);
  const std::vector<float> logits = {9, 0, 9, 0, 9, 0, 9, 0};
  const RoutingPlan plan = Route(context, ConstTensorView(logits.data(), Shape{4, 2}), {.top_k = 1},
                                 {.capacity_factor = 1});
  EXPECT_THAT(plan.expert_ids, ElementsAre(0, 0, -1, -1));
  EXPECT_EQ(plan.num_dropped, 2);
}

}  // namespace
}  // namespace opst
