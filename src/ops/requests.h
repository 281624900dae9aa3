// The checked requests that operators hand to their implementations: views and options, no logic.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_REQUESTS_H_
#define OPST_OPS_REQUESTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "opst/ops/gating.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/ops/moe_ffn.h"

namespace opst {

struct GatingRequest {
  ConstTensorView logits;  // [T,E]
  const GatingOptions* options;
  std::span<const float> load_factors;  // [E] multiply scores for selection; empty = none
  GatingResult* result;                 // ids and weights sized T·k, scores T·E or empty
};

struct GateBackwardRequest {
  ConstTensorView logits;               // [T,E]
  std::span<const int32_t> expert_ids;  // [T,k]
  ConstTensorView d_weights;            // [T,k]
  const GatingOptions* options;
  TensorView d_logits;  // [T,E]
};

struct ExpertChoiceRequest {
  std::span<const float> scores;  // [T,E], 0 = not to be picked
  int64_t capacity;
  std::vector<std::vector<int32_t>>* picks;  // [E] token numbers, in any order
};

struct GroupedMatmulRequest {
  ConstTensorView x;                       // [R,K]
  std::span<const int64_t> group_offsets;  // [G+1]
  const PackedWeights* weights;            // E x [N,K]
  const GroupedMatmulOptions* options;
  TensorView out;  // [R,N]

  int64_t num_groups() const { return static_cast<int64_t>(group_offsets.size()) - 1; }
  int64_t expert(int64_t group) const {
    return options->group_experts.empty() ? group
                                          : options->group_experts[static_cast<size_t>(group)];
  }
  // Bias of a group's matrix, [N]; null = none.
  const float* bias(int64_t group) const {
    return options->bias.rank() == 0
               ? nullptr
               : reinterpret_cast<const float*>(options->bias.row(expert(group)));
  }
};

struct MoeFfnRequest {
  ConstTensorView x;  // [T,H]
  const RoutingPlan* plan;
  const ExpertWeights* experts;
  const MoeFfnOptions* options;
  TensorView out;  // [T,H]
};

}  // namespace opst

#endif  // OPST_OPS_REQUESTS_H_
