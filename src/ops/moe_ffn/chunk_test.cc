// Tests that the chunks of a routing plan hold each of its rows once, in order.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_ffn/chunk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/testing/contexts.h"
#include "ops/testing/plans.h"

namespace opst {
namespace {

void ExpectPartition(const RoutingPlan& plan, int64_t chunk_tokens) {
  std::vector<int> visits(plan.row_to_slot.size(), 0);
  for (int64_t first = 0; first < plan.num_tokens; first += chunk_tokens) {
    const int64_t count = std::min(chunk_tokens, plan.num_tokens - first);
    const PlanChunk chunk(plan, first, count);
    int64_t rows_before = 0;
    for (int32_t expert = 0; expert < plan.num_experts; ++expert) {
      const auto index = static_cast<size_t>(expert);
      ASSERT_EQ(chunk.row_starts[index], rows_before);
      rows_before += chunk.row_counts[index];
      for (int64_t i = 0; i < chunk.row_counts[index]; ++i) {
        const int64_t row = chunk.first_rows[index] + i;
        const int32_t slot = plan.row_to_slot[static_cast<size_t>(row)];
        ASSERT_GE(slot, 0);
        ASSERT_EQ(plan.expert_ids[static_cast<size_t>(slot)], expert);
        ASSERT_EQ(chunk.token(expert, i), slot / plan.top_k);
        ASSERT_GE(chunk.token(expert, i), first);
        ASSERT_LT(chunk.token(expert, i), first + count);
        ASSERT_EQ(chunk.weight(expert, i), plan.expert_weights[static_cast<size_t>(slot)]);
        ++visits[static_cast<size_t>(row)];
      }
    }
    ASSERT_EQ(chunk.num_rows, rows_before);
  }
  for (size_t row = 0; row < visits.size(); ++row) {
    ASSERT_EQ(visits[row], plan.row_to_slot[row] < 0 ? 0 : 1) << row;
  }
}

TEST(PlanChunkTest, ChunksPartitionTheRowsOfEveryKindOfPlan) {
  const Context context = MakeContext(1);
  for (const int64_t tokens : {1, 2, 50}) {
    const Slots slots = RandomSlots(tokens, 6, 3, 1, {.empty_share = 0.2, .skew = 2});
    for (const RoutingPlanOptions options :
         {RoutingPlanOptions{}, RoutingPlanOptions{.capacity_factor = 0.5},
          RoutingPlanOptions{.capacity_factor = 1.5, .pads_to_capacity = true}}) {
      const RoutingPlan plan = MakePlan(context, slots, 6, options);
      for (const int64_t chunk_tokens : {1, 2, 7, 49, 50, 1000})
        ExpectPartition(plan, chunk_tokens);
    }
  }
}

TEST(PlanChunkTest, AnExpertNamedTwiceByATokenHasBothRows) {
  const Context context = MakeContext(1);
  const RoutingPlan plan = MakePlan(context, {3, 2, {1, 1, 0, 1, 1, 1}, {1, 2, 3, 4, 5, 6}}, 2);
  const PlanChunk chunk(plan, 0, 1);
  EXPECT_EQ(chunk.row_counts, (std::vector<int64_t>{0, 2}));
  ExpectPartition(plan, 1);
}

}  // namespace
}  // namespace opst
