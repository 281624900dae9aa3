// Movement of tokens into expert order, and back as a weighted sum: the unfused ends of a MoE
// layer, with their gradients.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_PERMUTE_H_
#define OPST_OPS_PERMUTE_H_

#include <cstdint>

#include "opst/context.h"
#include "opst/routing_plan.h"
#include "opst/tensor.h"

namespace opst {

// out[row] = x[row_to_slot[row] / k];  padding rows become 0
//   x    [T, H] f32, bf16 or f16; rows may be strided
//   out  [R, H] of x's dtype; rows may be strided; must not overlap x
// Bits are copied. Cost: R·H elements read and written. Threads: blocks of rows.
// Errors (kInvalidArgument): shapes or dtypes that do not fit the plan.
void Permute(const Context& context, ConstTensorView x, const RoutingPlan& plan, TensorView out);

// d_x[t] = Σ_j d_out[slot_to_row[t·k + j]], ascending in j; slots without a row contribute nothing
//   d_out  [R, H] f32, bf16 or f16; rows may be strided
//   d_x    [T, H] f32, bf16 or f16; must not overlap d_out
// Accuracy: f32 sums, rounded once. Cost: R·H elements read, T·H written. Threads: blocks of
// tokens. Errors: as Permute.
void PermuteBackward(const Context& context, ConstTensorView d_out, const RoutingPlan& plan,
                     TensorView d_x);

// How the rows of a token are quantised on their way into expert order.
enum class RowQuantization : uint8_t {
  kStatic,   // one scale and offset for all
  kDynamic,  // a scale of its own for every row
};

struct QuantizedPermuteOptions {
  RowQuantization quantization = RowQuantization::kDynamic;
  float scale = 1;   // kStatic: multiplies,
  float offset = 0;  // and is then added
  // kDynamic: factors of the columns, f32, contiguous; [E,H], [1,H] for all experts, or empty.
  ConstTensorView smooth = {};
};

// kStatic    q[row,h] = int8(x[t,h] · scale + offset)
// kDynamic   v = x[t] ∘ smooth[e];  scales[row] = max|v| / 127;  q[row,h] = int8(v[h] /
// scales[row]) with t and e the row's token and expert. int8 rounds to nearest even and saturates
// at -128, 127.
//   x       [T, H] f32, bf16 or f16; rows may be strided
//   out     [R, H] i8; rows may be strided; must not overlap x
//   scales  [R] f32, contiguous, for kDynamic; an empty view for kStatic
// Padding rows become 0 with scale 0; so does a row whose scale would be 0 or denormal. A row with
// NaN or infinity becomes 0 with scale NaN, so that it is NaN again when multiplied back; kStatic
// turns NaN into 0. |q·scale - v| ≤ scale · (1/2 + 2⁻¹⁵). Cost: R·H elements read twice. Threads:
// blocks of rows. Errors (kInvalidArgument): shapes or dtypes that do not fit; a scale or offset
// that is not finite. Source: CANN moe_init_routing_quant_v2, which rounds by way of f16.
void PermuteQuantized(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                      const QuantizedPermuteOptions& options, TensorView out, TensorView scales);

// The order in which the rows of a token are added.
enum class SummationOrder : uint8_t {
  kByExpert,  // ascending expert id: the same bits whatever the order of the choices
  kBySlot,    // j = 0 … k-1, CANN's
};

struct FinalizeOptions {
  // Added first, in this order; the second needs the first. [T,H] f32, bf16 or f16, or empty.
  ConstTensorView residual = {};
  ConstTensorView second_residual = {};
  // Added to the rows of each expert before their weight; [E,H] f32, bf16 or f16, or empty.
  ConstTensorView expert_bias = {};
  SummationOrder order = SummationOrder::kByExpert;
};

// out[t] = residual[t] + residual2[t] + Σ_j w[t,j] · (expert_out[slot_to_row[t·k + j]] + bias[e]),
// w = expert_weights, e = expert_ids[t,j]; slots without a row contribute nothing, not even a bias.
//   expert_out  [R, H] f32, bf16 or f16; rows may be strided
//   out         [T, H] f32, bf16 or f16; must not overlap expert_out; may be a residual
// Accuracy: f32 multiply-adds, rounded once. Cost: R·H elements read, T·H written. Threads: blocks
// of tokens.
// Errors (kInvalidArgument): shapes or dtypes that do not fit the plan; a second residual alone.
// Source: CANN moe_finalize_routing_v2.
void FinalizeRouting(const Context& context, ConstTensorView expert_out, const RoutingPlan& plan,
                     const FinalizeOptions& options, TensorView out);

// Where FinalizeRoutingBackward writes; an empty view = not wanted.
struct FinalizeGradients {
  TensorView d_expert_out = {};   // [R, H] f32, bf16 or f16
  TensorView d_weights = {};      // [T, k] f32, contiguous
  TensorView d_expert_bias = {};  // [E, H] f32
};

// d_expert_out[row] = w[t,j] · d_out[t], 0 for padding rows
// d_weights[t,j]    = Σ_h d_out[t,h] · (expert_out[row,h] + bias[e,h]), 0 for slots without a row
// d_expert_bias[e]  = Σ w[t,j] · d_out[t] over the rows of e, ascending
// A residual's gradient is d_out itself.
//   d_out        [T, H] f32, bf16 or f16; rows may be strided
//   expert_out   [R, H] as in the forward call; may be empty when d_weights is not wanted
//   expert_bias  [E, H] as in the forward call, or empty
// Accuracy: f32 sums, each rounded once. Threads: blocks of rows, tokens and experts; the bits do
// not depend on their number. Errors (kInvalidArgument): shapes or dtypes that do not fit the plan,
// gradients that overlap an argument.
// Source: CANN moe_finalize_routing_v2_grad; there a slot without a row has Σ_h d_out · bias.
void FinalizeRoutingBackward(const Context& context, ConstTensorView d_out,
                             ConstTensorView expert_out, const RoutingPlan& plan,
                             ConstTensorView expert_bias, const FinalizeGradients& gradients);

}  // namespace opst

#endif  // OPST_OPS_PERMUTE_H_
