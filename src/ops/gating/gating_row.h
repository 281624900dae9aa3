// One row of gating by vector kernels: scores, selection keys, groups, top-k, weights. Internal.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GATING_GATING_ROW_H_
#define OPST_OPS_GATING_GATING_ROW_H_

#include <cstdint>
#include <vector>

#include "opst/ops/gating.h"

namespace opst {

// Scratch of one worker, sized for E experts.
struct GatingScratch {
  explicit GatingScratch(int64_t num_experts, int64_t num_groups);
  std::vector<float> logits;         // [E] without NaN
  std::vector<float> scores;         // [E]
  std::vector<float> selection;      // [E] scores + bias
  std::vector<int32_t> keys;         // [E]
  std::vector<float> group_scores;   // [G]
  std::vector<int32_t> group_keys;   // [G]
  std::vector<int32_t> kept_groups;  // [G]
};

// Fills ids [k] and weights [k] from logits [E]. Returns false for a row with no usable logit.
bool GateRow(const float* logits, int64_t num_experts, const GatingOptions& options,
             GatingScratch& scratch, int32_t* ids, float* weights);

}  // namespace opst

#endif  // OPST_OPS_GATING_GATING_ROW_H_
