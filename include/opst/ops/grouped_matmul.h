// Grouped matrix product: consecutive groups of rows, each with a weight matrix of its own.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GROUPED_MATMUL_H_
#define OPST_OPS_GROUPED_MATMUL_H_

#include <cstdint>
#include <optional>
#include <span>

#include "opst/context.h"
#include "opst/ops/activation.h"
#include "opst/ops/output_mode.h"
#include "opst/packed_weights.h"
#include "opst/tensor.h"

namespace opst {

struct GroupedMatmulOptions {
  // Added to the product; f32, one row [N] for each matrix, [E, N]; or empty.
  ConstTensorView bias = {};
  // Of product and bias, before kAdd; any but kClampedSwiglu.
  std::optional<Activation> activation = {};
  OutputMode output_mode = OutputMode::kOverwrite;
  // The matrix of each group, [G] of 0 … E-1, for groups that are few among many matrices; empty =
  // group g has matrix g, and G = E.
  std::span<const int32_t> group_experts = {};
};

// out[r, n] = act(Σ_k x[r, k] · W_e[n, k] + bias[e, n])  for rows r in
// [group_offsets[g], group_offsets[g+1]), e = group_experts[g]
//   x              [R, K] f32, bf16 or f16; rows may be strided
//   group_offsets  [G+1] ascending, first 0, last R; empty groups allowed
//   weights        E matrices [N, K] in plain panels
//   out            [R, N] f32, bf16 or f16; rows may be strided; must not overlap x
// With kAdd the sum is added to out in f32 at the end, then rounded.
// Accuracy: f32 accumulation, one chain of multiply-adds per element with k ascending, rounded once
// to out's dtype; |error| ≤ K·2⁻²⁴·Σ|x·W| to first order + the rounding. That holds on every
// instruction set: where product and sum are rounded apart (SSE2) a product passes one rounding of
// its own and, as the first sum (0 + product) is exact, at most K - 1 of sums.
// Weights of integer formats count as the numbers they stand for; against them x is rounded, group
// by group of its rows, to the integers that the setting `act` names (int16; int8; f32 = not at
// all): half a step of max|x| / 32767 or / 127 in a group. A row's bits depend on nothing but that
// row and W. Cost: 2·R·N·K flop, the weights of non-empty groups read once per 128 rows of a group.
// Threads: tasks of (group, rows, columns) from a queue. Errors (kInvalidArgument): shapes or
// dtypes that do not fit, offsets that are not ascending, a matrix outside 0 … E-1. The gradient of
// x is GroupedMatmul of out's gradient with PackExpertsTransposed weights.
void GroupedMatmul(const Context& context, ConstTensorView x,
                   std::span<const int64_t> group_offsets, const PackedWeights& weights,
                   const GroupedMatmulOptions& options, TensorView out);
// The same without options.
void GroupedMatmul(const Context& context, ConstTensorView x,
                   std::span<const int64_t> group_offsets, const PackedWeights& weights,
                   TensorView out);

// The same with one group: out = x Wᵀ.
void Matmul(const Context& context, ConstTensorView x, const PackedWeights& weights,
            TensorView out);

// d_weights[g, n, k] = Σ_r d_out[r, n] · x[r, k]  over the rows r of group g: the gradient of the
// weights, and the grouped product whose inner dimension varies. Groups without rows give 0.
//   x              [R, K] f32, bf16 or f16; rows may be strided
//   d_out          [R, N] f32, bf16 or f16; rows may be strided
//   group_offsets  [G+1] ascending, first 0, last R
//   d_weights      [G, N, K] f32, contiguous; must not overlap x or d_out
// Accuracy: one chain of f32 multiply-adds per element, r ascending, that with kAdd starts at the
// element: rows may be handed over in several calls and give the same bits. Cost: 2·R·N·K flop.
// Threads: tasks of (group, rows, columns of the gradient). Errors (kInvalidArgument): shapes or
// dtypes that do not fit, offsets that are not ascending.
// Source: CANN grouped_matmul with groupType 2, and grouped_matmul_add.
void GroupedMatmulWeightGradient(const Context& context, ConstTensorView x, ConstTensorView d_out,
                                 std::span<const int64_t> group_offsets, OutputMode mode,
                                 TensorView d_weights);

}  // namespace opst

#endif  // OPST_OPS_GROUPED_MATMUL_H_
