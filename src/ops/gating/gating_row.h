// One row of gating by vector kernels: scores, selection, weights. Internal.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GATING_GATING_ROW_H_
#define OPST_OPS_GATING_GATING_ROW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "opst/ops/gating.h"

namespace opst {

// Scratch of one worker, sized for E experts.
struct GatingScratch {
  explicit GatingScratch(int64_t num_experts, int64_t num_groups);
  std::vector<float> logits;         // [E] without NaN
  std::vector<float> scores;         // [E]
  std::vector<float> selection;      // [E] scores · load factors + bias
  std::vector<int32_t> keys;         // [E]
  std::vector<float> group_scores;   // [G]
  std::vector<int32_t> group_keys;   // [G]
  std::vector<int32_t> kept_groups;  // [G]
};

// What a row becomes: slots [k] and, if wanted, scores [E].
struct GatedRow {
  int32_t* ids;
  float* weights;
  float* scores;  // null = not wanted
};

// Gates logits [E]. load_factors [E] multiply the scores for selection; empty = none. Returns false
// for a row with no usable logit.
bool GateRow(const float* logits, const GatingOptions& options, std::span<const float> load_factors,
             GatingScratch& scratch, const GatedRow& row);

// Fills ids with the experts that scratch.logits and scratch.scores are worth, best first; returns
// how many, at least one and at most top_k. The other slots are undefined.
size_t SelectExperts(const GatingOptions& options, std::span<const float> load_factors,
                     GatingScratch& scratch, int32_t* ids);

}  // namespace opst

#endif  // OPST_OPS_GATING_GATING_ROW_H_
