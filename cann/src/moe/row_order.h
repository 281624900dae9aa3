// The stable order of slots by expert, for ids that may be any number from 0 on.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_MOE_ROW_ORDER_H_
#define OPST_CANN_MOE_ROW_ORDER_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cann/src/execution/run.h"
#include "opst/routing_plan.h"

namespace opst::cann {

// CANN sorts ids as f32, which is exact below this.
constexpr int64_t kLargestId = 16777214;

struct RowOrder {
  std::vector<int32_t> row_to_slot;
  std::vector<int32_t> slot_to_row;
  std::vector<int64_t> counts;  // of each id up to the largest one that occurs
};

inline RowOrder OrderById(const Run& run, std::vector<int32_t> ids) {
  const int64_t num_ids = ids.empty() ? 1 : *std::max_element(ids.begin(), ids.end()) + 1;
  std::vector<float> weights(ids.size(), 0.0f);
  RoutingPlan plan =
      BuildRoutingPlan(run.context(), std::move(ids), std::move(weights), 1, num_ids);
  return {std::move(plan.row_to_slot), std::move(plan.slot_to_row), std::move(plan.expert_counts)};
}

}  // namespace opst::cann

#endif  // OPST_CANN_MOE_ROW_ORDER_H_
