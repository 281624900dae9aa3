// Sizes first, then offsets, then every index once.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/routing/check_plan.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace opst {
namespace {

void CheckSizes(std::string_view op, const RoutingPlan& plan) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  OPST_CHECK_ARG(plan.num_tokens >= 0 && plan.num_experts >= 0 && plan.top_k >= 0 &&
                     (plan.top_k == 0 || plan.num_tokens <= kMax / plan.top_k),
                 op, "the plan's T, E and k must not be negative, T·k below 2^31", plan.num_tokens,
                 ", ", plan.num_experts, ", ", plan.top_k);
  const auto num_slots = static_cast<size_t>(plan.num_tokens * plan.top_k);
  const auto num_experts = static_cast<size_t>(plan.num_experts);
  OPST_CHECK_ARG(plan.expert_ids.size() == num_slots && plan.expert_weights.size() == num_slots &&
                     plan.slot_to_row.size() == num_slots,
                 op, "the plan's expert_ids, expert_weights and slot_to_row must be [T,k]",
                 plan.expert_ids.size(), ", ", plan.expert_weights.size(), " and ",
                 plan.slot_to_row.size(), " for ", num_slots, " slots");
  OPST_CHECK_ARG(
      plan.expert_counts.size() == num_experts && plan.expert_offsets.size() == num_experts + 1, op,
      "the plan's expert_counts must be [E] and expert_offsets [E+1]", plan.expert_counts.size(),
      " and ", plan.expert_offsets.size(), " for ", num_experts, " experts");
}

void CheckOffsets(std::string_view op, const RoutingPlan& plan) {
  const auto& offsets = plan.expert_offsets;
  OPST_CHECK_ARG(offsets.front() == 0 && offsets.back() == plan.num_rows(), op,
                 "the plan's expert_offsets must begin with 0 and end with R", offsets.front(),
                 " and ", offsets.back(), " for ", plan.num_rows(), " rows");
  for (size_t expert = 0; expert < plan.expert_counts.size(); ++expert) {
    const int64_t count = plan.expert_counts[expert];
    OPST_CHECK_ARG(count >= 0 && count <= offsets[expert + 1] - offsets[expert], op,
                   "the plan's expert_counts must fit between its offsets", count,
                   " rows of expert ", expert, " between ", offsets[expert], " and ",
                   offsets[expert + 1]);
  }
}

// Rows of one expert name ascending slots of that expert, which name them back.
void CheckRows(std::string_view op, const RoutingPlan& plan, size_t expert) {
  const int64_t first = plan.expert_offsets[expert];
  int32_t last_slot = -1;
  for (int64_t row = first; row < first + plan.expert_counts[expert]; ++row) {
    const int32_t slot = plan.row_to_slot[static_cast<size_t>(row)];
    const auto index = static_cast<size_t>(slot);
    const bool is_consistent = slot > last_slot && index < plan.expert_ids.size() &&
                               plan.expert_ids[index] == static_cast<int32_t>(expert) &&
                               plan.slot_to_row[index] == row;
    OPST_CHECK_ARG(is_consistent, op,
                   "rows of the plan must name slots of their expert, ascending, and be named by "
                   "them",
                   "row ", row, " of expert ", expert, " names slot ", slot);
    last_slot = slot;
  }
}

}  // namespace

void CheckPlan(std::string_view op, const RoutingPlan& plan) {
  CheckSizes(op, plan);
  CheckOffsets(op, plan);
  int64_t used_rows = 0;
  for (size_t expert = 0; expert < plan.expert_counts.size(); ++expert) {
    CheckRows(op, plan, expert);
    used_rows += plan.expert_counts[expert];
  }
  const auto used_slots = std::count_if(plan.slot_to_row.begin(), plan.slot_to_row.end(),
                                        [](int32_t row) { return row != -1; });
  OPST_CHECK_ARG(used_slots == used_rows, op, "the plan's slots must name a row of theirs or -1",
                 used_slots, " slots with rows for ", used_rows, " rows in use");
}

}  // namespace opst
