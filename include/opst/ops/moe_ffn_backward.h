// The gradients of the MoE feed-forward layer. The forward operator is in moe_ffn.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_MOE_FFN_BACKWARD_H_
#define OPST_OPS_MOE_FFN_BACKWARD_H_

#include <cstddef>

#include "opst/context.h"
#include "opst/ops/activation.h"
#include "opst/ops/output_mode.h"
#include "opst/routing_plan.h"
#include "opst/tensor.h"

namespace opst {

// The experts' weights as they are trained: f32, bf16 or f16, contiguous, one dtype.
struct ExpertTensors {
  ConstTensorView gate_up;            // [E, 2F, H], gate rows first; without a gate [E, F, H]
  ConstTensorView down;               // [E, H, F]
  ConstTensorView gate_up_bias = {};  // [E, 2F] f32, or empty; without a gate [E, F]
  ConstTensorView down_bias = {};     // [E, H] f32, or empty

  bool has_gate() const { return gate_up.dim(1) != down.dim(2); }
};

struct MoeFfnBackwardOptions {
  Activation activation = Activation::kSilu;
  ActivationLimits limits = {};
  // kAdd: gradients of weights and biases are added to what is there, as several micro-batches
  // need it.
  OutputMode weight_mode = OutputMode::kOverwrite;
  // g and u of all rows of the plan, [R, 2F] (without a gate [R, F]) f32, bf16 or f16, rows may be
  // strided: what GroupedMatmul makes of the permuted x, with the bias. Empty = computed again.
  ConstTensorView saved_gate_up = {};
  size_t workspace_bytes = 0;  // aim for this call's memory; 0 = the setting stage1_buffer_size
};

// Where the gradients go; an empty view = not wanted.
struct MoeFfnGradients {
  TensorView d_x = {};               // [T, H] f32, bf16 or f16
  TensorView d_expert_weights = {};  // [T, k] f32, contiguous; 0 for slots without a row
  TensorView d_gate_up = {};         // of gate_up's shape, f32, contiguous
  TensorView d_down = {};            // [E, H, F] f32, contiguous
  TensorView d_gate_up_bias = {};    // [E, 2F] f32, contiguous; without a gate [E, F]
  TensorView d_down_bias = {};       // [E, H] f32, contiguous
};

// Gradients of out[t] = Σ_j w[t,j] · (W_down(e) h + b_down(e)),  h = f(g, u),  g, u = W_gate_up(e)
// x[t] + b_gate_up(e),  given those of out. With z = W_downᵀ d_out[t] for every row (t, j):
//   d_w[t,j] = h · z + b_down · d_out[t]     d_g, d_u = w z ∘ ∂f/∂g, w z ∘ ∂f/∂u
//   d_W_down(e) = Σ w d_out[t] hᵀ            d_W_gate_up(e) = Σ [d_g; d_u] x[t]ᵀ
//   d_x[t] = Σ_j W_gate_upᵀ [d_g; d_u]       biases: the same sums without hᵀ and x[t]ᵀ
// Without a gate f = act(u), and what is said of g falls away. Any activation but kClampedSwiglu.
// g and u are computed again: nothing but x and the plan need be kept from the forward call. With
// saved_gate_up they are read, which keeps 2·R·F elements (without a gate R·F) and saves 4·R·H·F
// flop (2·R·H·F) and a third of the packing; the bits are the same if they were kept in f32.
//   x, d_out  [T, H] f32, bf16 or f16; rows may be strided
//   plan      of these T tokens and the weights' E experts
// Gradients must not overlap arguments or each other. Accuracy: f32 products and sums in one chain
// each, ascending in row; bits do not depend on the number of threads or the workspace.
// Cost: 16·R·H·F flop for all gradients (a forward call has 6), without a gate 10 (4); one packing
// of the experts in use.
// Memory: rows of as many experts at a time as the workspace holds, at least one expert's packed
// weights and one of its rows, and [T, H] f32 for a d_x of 16 bits.
// Errors (kInvalidArgument): shapes or dtypes that do not fit, each named with its facts.
void MoeFfnBackward(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                    const ExpertTensors& experts, ConstTensorView d_out,
                    const MoeFfnBackwardOptions& options, const MoeFfnGradients& gradients);

}  // namespace opst

#endif  // OPST_OPS_MOE_FFN_BACKWARD_H_
