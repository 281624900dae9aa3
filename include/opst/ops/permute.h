// Movement of tokens into expert order, and back as a weighted sum: the unfused ends of a MoE
// layer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_PERMUTE_H_
#define OPST_OPS_PERMUTE_H_

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

// out[t] = residual[t] + Σ_j expert_weights[t,j] · expert_out[slot_to_row[t·k + j]], ascending in
// expert id; slots without a row contribute nothing.
//   expert_out  [R, H] f32, bf16 or f16; rows may be strided
//   residual    [T, H] f32, bf16 or f16, or an empty view for none
//   out         [T, H] f32, bf16 or f16; must not overlap expert_out; may be the residual
// Accuracy: f32 multiply-adds, rounded once. Cost: R·H elements read, T·H written.
// Errors (kInvalidArgument): shapes or dtypes that do not fit the plan.
// Source: CANN moe_finalize_routing, whose order of summation is j instead.
void FinalizeRouting(const Context& context, ConstTensorView expert_out, const RoutingPlan& plan,
                     ConstTensorView residual, TensorView out);

}  // namespace opst

#endif  // OPST_OPS_PERMUTE_H_
