// The checked requests that operators hand to their implementations: views and options, no logic.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_REQUESTS_H_
#define OPST_OPS_REQUESTS_H_

#include <span>

#include "opst/ops/gating.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/ops/moe_ffn.h"

namespace opst {

struct GatingRequest {
  ConstTensorView logits;  // [T,E]
  const GatingOptions* options;
  GatingResult* result;  // ids and weights sized T·k
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
