// The backward pass of the MoE layer for some rows of some experts. Checks, and the choice of rows,
// are in moe_ffn_backward.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_MOE_FFN_BACKWARD_PART_H_
#define OPST_OPS_MOE_FFN_BACKWARD_PART_H_

#include <cstdint>
#include <vector>

#include "opst/context.h"
#include "opst/ops/moe_ffn_backward.h"
#include "opst/packed_weights.h"

namespace opst {

struct MoeFfnBackwardRequest {
  ConstTensorView x;  // [T,H]
  const RoutingPlan& plan;
  const ExpertTensors& experts;
  ConstTensorView d_out;  // [T,H]
  const MoeFfnBackwardOptions& options;
  const MoeFfnGradients& gradients;
  TensorView d_x;  // [T,H] f32 sums, or empty

  int64_t hidden() const { return x.dim(1); }
  int64_t ffn() const { return experts.down.dim(2); }
  bool has_gate() const { return experts.has_gate(); }
  // Rows of gate_up: 2F, without a gate F.
  int64_t gate_up_rows() const { return experts.gate_up.dim(1); }
};

// Experts [begin, end), packed for the three products of the backward pass.
class BackwardExperts {
 public:
  BackwardExperts(const Context& context, const MoeFfnBackwardRequest& request, int64_t begin,
                  int64_t end);

  // Bytes of packed panels for one expert.
  static size_t BytesPerExpert(const MoeFfnBackwardRequest& request);

  const int64_t begin;
  const int64_t end;
  const PackedWeights gate_up;             // [2F,H]: g, u = x W; empty when those were saved
  const PackedWeights gate_up_transposed;  // [H,2F]: d_x = [d_g, d_u] Wᵀ
  const PackedWeights down_transposed;     // [F,H]: z = d_out Wᵀ
};

// Rows of the experts' ranges: of expert begin + i, those from first_rows[i] on, counts[i] of them
// (rows of the plan).
struct BackwardRows {
  std::vector<int64_t> first_rows;
  std::vector<int64_t> counts;
};

// Bytes of buffers for one row.
size_t BackwardBytesPerRow(const MoeFfnBackwardRequest& request);

// Adds these rows' share to all gradients that are wanted.
void RunBackwardPart(const Context& context, const MoeFfnBackwardRequest& request,
                     const BackwardExperts& experts, const BackwardRows& rows);

}  // namespace opst

#endif  // OPST_OPS_MOE_FFN_BACKWARD_PART_H_
