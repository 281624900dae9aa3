// The fused MoE feed-forward layer: gather, gate/up, activation, down and weighted combine in one.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_MOE_FFN_H_
#define OPST_OPS_MOE_FFN_H_

#include <cstdint>

#include "opst/context.h"
#include "opst/ops/activation.h"
#include "opst/ops/output_mode.h"
#include "opst/packed_weights.h"
#include "opst/routing_plan.h"
#include "opst/tensor.h"

namespace opst {

// The weights of E experts.
struct ExpertWeights {
  PackedWeights gate_up;  // E x [2F, H], PanelOrder::kGateUp; without a gate E x [F, H], kPlain
  PackedWeights down;     // E x [H, F], PanelOrder::kPlain
  // Added to the two products, before the activation and before the mixing weight. Empty = none;
  // else contiguous f32 whose memory outlives the weights.
  ConstTensorView gate_up_bias = {};  // [E, 2F], gate first; without a gate [E, F]
  ConstTensorView down_bias = {};     // [E, H]

  bool has_gate() const { return gate_up.layout().order == PanelOrder::kGateUp; }
};

struct MoeFfnOptions {
  Activation activation = Activation::kSilu;
  OutputMode output_mode = OutputMode::kOverwrite;  // kAdd: how shared experts come last
  ActivationLimits limits = {};
  size_t workspace_bytes = 0;  // bound on this call's memory; 0 = the setting stage1_buffer_size
};

// out[t] = Σ_j w[t,j] · (W_down(e) h + b_down(e)),  h = act(W_gate(e) x[t]) ∘ (W_up(e) x[t]), or
// without a gate h = act(W_up(e) x[t]), e = expert_ids[t,j], summed in ascending expert id; slots
// without a row contribute nothing. With a gate_up bias both products have theirs added first.
//   x     [T, H] f32, bf16 or f16; rows may be strided
//   plan  of these T tokens and these E experts
//   out   [T, H] of x's dtype or f32; rows may be strided; must not overlap x
// Two phases, one after the other: tasks of (expert, rows, columns) make the activations; then
// blocks of output columns walk all experts, so that every output element has one writer and the
// result has the same bits for any number of threads, batch neighbours or chunking.
// Accuracy: as grouped_matmul, activations kept in f32 (integer weights: rounded as x is), combined
// in f32, rounded once. Cost: 6·R·H·F flop, without a gate 4·R·H·F. Memory beyond the arguments: at
// most the setting stage1_buffer_size (256MB); tokens are taken in chunks that fit. Errors
// (kInvalidArgument): shapes, dtypes or layouts that do not fit, each named with its facts.
void MoeFfn(const Context& context, ConstTensorView x, const RoutingPlan& plan,
            const ExpertWeights& experts, const MoeFfnOptions& options, TensorView out);

}  // namespace opst

#endif  // OPST_OPS_MOE_FFN_H_
