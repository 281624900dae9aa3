// Finds each expert's range of rows for a range of tokens by binary search.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_ffn/chunk.h"

#include <algorithm>

namespace opst {

PlanChunk::PlanChunk(const RoutingPlan& routing, int64_t first, int64_t count)
    : plan(routing), first_token(first), num_tokens(count) {
  const auto num_experts = static_cast<size_t>(plan.num_experts);
  first_rows.resize(num_experts);
  row_counts.resize(num_experts);
  row_starts.resize(num_experts);
  for (size_t expert = 0; expert < num_experts; ++expert) {
    const auto begin = plan.row_to_slot.begin() + plan.expert_offsets[expert];
    const auto end = begin + plan.expert_counts[expert];  // padding rows stand behind
    const auto low = std::lower_bound(begin, end, first_token * plan.top_k);
    const auto high = std::lower_bound(low, end, (first_token + num_tokens) * plan.top_k);
    first_rows[expert] = low - plan.row_to_slot.begin();
    row_counts[expert] = high - low;
    row_starts[expert] = num_rows;
    num_rows += row_counts[expert];
  }
}

}  // namespace opst
