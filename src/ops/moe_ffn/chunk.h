// The rows of a routing plan that belong to one range of tokens, and how many tokens fit a memory
// budget. No arithmetic on activations.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_MOE_FFN_CHUNK_H_
#define OPST_OPS_MOE_FFN_CHUNK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "opst/routing_plan.h"

namespace opst {

// Per expert, the rows of tokens [first_token, first_token + num_tokens). Rows of an expert stand
// in token order, so they are one range.
struct PlanChunk {
  PlanChunk(const RoutingPlan& plan, int64_t first_token, int64_t num_tokens);

  // Token, and mixing weight, of the i-th row of an expert in this chunk.
  int64_t token(int32_t expert, int64_t i) const { return slot(expert, i) / plan.top_k; }
  float weight(int32_t expert, int64_t i) const {
    return plan.expert_weights[static_cast<size_t>(slot(expert, i))];
  }

  const RoutingPlan& plan;
  int64_t first_token;
  int64_t num_tokens;
  std::vector<int64_t> first_rows;  // [E] row of the plan
  std::vector<int64_t> row_counts;  // [E]
  std::vector<int64_t> row_starts;  // [E] rows of earlier experts in this chunk
  int64_t num_rows = 0;

 private:
  int64_t slot(int32_t expert, int64_t i) const {
    return plan.row_to_slot[static_cast<size_t>(first_rows[static_cast<size_t>(expert)] + i)];
  }
};

}  // namespace opst

#endif  // OPST_OPS_MOE_FFN_CHUNK_H_
