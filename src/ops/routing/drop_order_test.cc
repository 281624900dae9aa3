// Tests of who stays where an expert is full: published cases, and the definition by plain loops.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "ops/testing/contexts.h"
#include "ops/testing/plans.h"
#include "opst/ops/gating.h"
#include "opst/routing_plan.h"

namespace opst {
namespace {

// (token, expert, place in the expert's rows) of every slot that has a row, ascending.
using Places = std::vector<std::tuple<int64_t, int64_t, int64_t>>;

Places PlacesOf(const RoutingPlan& plan) {
  Places places;
  for (size_t slot = 0; slot < plan.slot_to_row.size(); ++slot) {
    const int32_t row = plan.slot_to_row[slot];
    if (row < 0) continue;
    const int32_t expert = plan.expert_ids[slot];
    places.emplace_back(static_cast<int64_t>(slot) / plan.top_k, expert,
                        row - plan.expert_offsets[static_cast<size_t>(expert)]);
  }
  std::sort(places.begin(), places.end());
  return places;
}

class DropOrderTest : public testing::Test {
 protected:
  // Logits as DeepSpeed's gate takes them: softmax over all experts, not renormalised.
  Places Route(const std::vector<float>& logits, int64_t num_experts, int64_t top_k,
               DropOrder order) const {
    const int64_t tokens = static_cast<int64_t>(logits.size()) / num_experts;
    return PlacesOf(opst::Route(context_, {logits.data(), Shape{tokens, num_experts}},
                                {.top_k = top_k, .renormalizes = false},
                                {.capacity_factor = 1, .drop_order = order}));
  }

  const Context context_ = MakeContext(1);
};

// DeepSpeed's own test of its top-k gate has these inputs and places.
TEST_F(DropOrderTest, TopTwoOfDeepSpeed) {
  const std::vector<float> logits = {0.11f, 0.2f, 0.1f, 0.3f, 0.3f, 0.4f,  0.11f, 0.1f,
                                     0.11f, 0.1f, 0.6f, 0.5f, 0.1f, 0.11f, 0.7f,  0.8f};
  EXPECT_EQ(Route(logits, 4, 2, DropOrder::kByWeight),
            (Places{{0, 1, 0}, {1, 0, 0}, {1, 1, 1}, {2, 2, 0}, {2, 3, 0}, {3, 2, 1}, {3, 3, 1}}));
  EXPECT_EQ(Route(logits, 4, 2, DropOrder::kByToken),
            (Places{{0, 1, 0}, {0, 3, 0}, {1, 0, 0}, {1, 1, 1}, {2, 2, 0}, {2, 3, 1}, {3, 2, 1}}));
}

TEST_F(DropOrderTest, TopThreeOfDeepSpeed) {
  const std::vector<float> logits = {0.5858f, 0.4801f, 0.6269f, 0.5397f, 0.9722f, 0.7034f,
                                     0.5445f, 0.6332f, 0.4519f, 0.6308f, 0.0519f, 0.6450f,
                                     0.4874f, 0.8110f, 0.7467f, 0.8474f, 0.0277f, 0.3068f,
                                     0.8570f, 0.6714f, 0.5310f, 0.3274f, 0.4836f, 0.9892f};
  EXPECT_EQ(Route(logits, 6, 3, DropOrder::kByWeight), (Places{{0, 2, 0},
                                                               {0, 4, 0},
                                                               {1, 1, 0},
                                                               {1, 3, 0},
                                                               {1, 5, 0},
                                                               {2, 1, 1},
                                                               {2, 2, 1},
                                                               {2, 3, 1},
                                                               {3, 0, 0},
                                                               {3, 5, 1}}));
  EXPECT_EQ(Route(logits, 6, 3, DropOrder::kByToken), (Places{{0, 2, 0},
                                                              {0, 4, 0},
                                                              {0, 5, 0},
                                                              {1, 1, 0},
                                                              {1, 3, 0},
                                                              {1, 5, 1},
                                                              {2, 1, 1},
                                                              {2, 2, 1},
                                                              {2, 3, 1},
                                                              {3, 0, 0}}));
}

// DeepSpeed's capacities: S tokens, E experts; k is part of its factor.
TEST_F(DropOrderTest, CapacitiesOfDeepSpeed) {
  const auto capacity = [&](int64_t tokens, int64_t experts, int64_t top_k, double factor) {
    const Slots slots = RandomSlots(tokens, experts, top_k, 1);
    return MakePlan(context_, slots, experts, {.capacity_factor = factor, .pads_to_capacity = true})
        .expert_offsets[1];
  };
  EXPECT_EQ(capacity(8, 4, 2, 1), 4);
  EXPECT_EQ(capacity(8, 4, 1, 1), 2);
  EXPECT_EQ(capacity(7, 4, 1, 1), 2);  // rounded up
  // Ours ends at the number of tokens: no expert can have more (DeepSpeed makes room for 6).
  EXPECT_EQ(capacity(3, 4, 1, 8), 3);
}

// Slot after slot: it stays when fewer than `capacity` slots of its expert come before it.
TEST_F(DropOrderTest, AThousandRandomBatchesEqualTheDefinition) {
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const auto experts = static_cast<int64_t>(1 + random() % 6);
    const auto top_k = static_cast<int64_t>(1 + random() % static_cast<uint32_t>(experts));
    const auto tokens = static_cast<int64_t>(random() % 12);
    Slots slots = RandomSlots(tokens, experts, top_k, seed, {.empty_share = 0.1, .skew = 1});
    for (float& weight : slots.weights) {
      weight = std::round(weight * 4);  // many are equal
      if (random() % 16 == 0) weight = std::numeric_limits<float>::quiet_NaN();
    }
    const auto order = static_cast<DropOrder>(random() % 3);
    const double factor = 0.25 * static_cast<double>(1 + random() % 6);
    const auto capacity = static_cast<int64_t>(std::min(
        static_cast<double>(tokens),
        std::ceil(factor * static_cast<double>(tokens * top_k) / static_cast<double>(experts))));
    const auto comes_before = [&](size_t a, size_t b) {
      const auto k = static_cast<size_t>(top_k);
      const float x = slots.weights[a], y = slots.weights[b];
      if (order == DropOrder::kByChoice) {
        return std::tuple(a % k, a / k) < std::tuple(b % k, b / k);
      }
      if (order == DropOrder::kByToken || std::isnan(x) == std::isnan(y)) {
        return order == DropOrder::kByToken || std::isnan(x) || x == y ? a < b : x > y;
      }
      return std::isnan(y);
    };
    const RoutingPlan plan =
        MakePlan(context_, slots, experts, {.capacity_factor = factor, .drop_order = order});
    for (size_t slot = 0; slot < slots.ids.size(); ++slot) {
      int64_t before = 0;
      for (size_t other = 0; other < slots.ids.size(); ++other) {
        before += slots.ids[other] == slots.ids[slot] && comes_before(other, slot);
      }
      const bool stays = slots.ids[slot] >= 0 && before < capacity;
      EXPECT_EQ(plan.expert_ids[slot], stays ? slots.ids[slot] : -1) << seed << ", " << slot;
    }
  }
}

}  // namespace
}  // namespace opst
