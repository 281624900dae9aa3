// Grouped matrix products with what follows them in a layer: activation and int8, or the weighted
// sum of a token's rows. The plain product is grouped_matmul.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GROUPED_MATMUL_FUSED_H_
#define OPST_OPS_GROUPED_MATMUL_FUSED_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "opst/context.h"
#include "opst/ops/activation.h"
#include "opst/ops/output_mode.h"
#include "opst/packed_weights.h"
#include "opst/tensor.h"

namespace opst {

struct GroupedMatmulQuantizeOptions {
  Activation activation = Activation::kSilu;
  ActivationLimits limits = {};
  ConstTensorView x_scales = {};  // of an int8 x: [R] f32, contiguous; else empty
  ConstTensorView bias = {};      // [E, 2F] f32, gate first; without a gate [E, F]; or empty
  ConstTensorView smooth = {};    // factors of the columns, f32: [E, F], [1, F], or empty
  std::span<const int32_t> group_experts = {};  // as in GroupedMatmulOptions
  size_t workspace_bytes = 0;  // aim for this call's rows; 0 = the setting stage1_buffer_size
};

// Rows of int8 with a scale each: value = scales[r] · values[r].
struct QuantizedRows {
  TensorView values;  // [R, F] i8; rows may be strided
  TensorView scales;  // [R] f32, contiguous
};

// [g; u] = s[r] · (W_e x[r]) + bias[e],  v = act(g) ∘ u ∘ smooth[e], without a gate act(u) ∘
// smooth[e];  scales[r] = max|v| / 127,  values[r] = int8(v / scales[r])
// for rows r in [group_offsets[g], group_offsets[g+1]), e = group_experts[g], s = x_scales or 1
//   x              [R, K] f32, bf16, f16 or i8; rows may be strided
//   group_offsets  [G+1] ascending, first 0, last R; empty groups allowed
//   weights        E matrices [2F, K] in kGateUp panels; without a gate [F, K], kPlain
//   out            must not overlap x
// Neither g, u nor v of all rows is ever in memory: rows are taken in parts that fit the workspace.
// Accuracy: v as GroupedMatmul and the activation give it, then |value·scale - v| ≤ scale · (1/2 +
// 2⁻¹⁵). int8 rounds to nearest even. A row of zeros becomes 0 with scale 0; one with NaN or
// infinity 0 with scale NaN. A row's bits depend on nothing but that row and W. Cost: 4·R·K·F flop,
// without a gate 2·R·K·F. Threads: as GroupedMatmul, then blocks of rows. Errors
// (kInvalidArgument): shapes or dtypes that do not fit, each named with its facts.
// Source: CANN grouped_matmul_swiglu_quant.
void GroupedMatmulQuantize(const Context& context, ConstTensorView x,
                           std::span<const int64_t> group_offsets, const PackedWeights& weights,
                           const GroupedMatmulQuantizeOptions& options, const QuantizedRows& out);

struct GroupedMatmulFinalizeOptions {
  ConstTensorView row_indices;       // [R] i32, contiguous: the row of out, or -1 = none; required
  ConstTensorView row_weights = {};  // [R] f32, contiguous; or empty: all 1
  ConstTensorView x_scales = {};     // of an int8 x: [R] f32, contiguous; else empty
  ConstTensorView bias = {};         // [E, N] f32, before the weight; or empty
  // Added with its weight to the rows of out from first_shared_row on, before all others; [S, N]
  // f32, bf16 or f16; or empty.
  ConstTensorView shared = {};
  float shared_weight = 1;
  int64_t first_shared_row = 0;
  std::span<const int32_t> group_experts = {};  // as in GroupedMatmulOptions
  OutputMode output_mode = OutputMode::kOverwrite;
};

// out[t] = shared_weight · shared[t - first_shared_row] + Σ_r w[r] · (s[r] · (W_e x[r]) + bias[e])
// over the rows r with row_indices[r] = t, ascending in r; with kAdd the sum starts at out[t]
//   x              [R, K] f32, bf16, f16 or i8; rows may be strided
//   group_offsets  [G+1] ascending, first 0, last R; empty groups allowed
//   weights        E matrices [N, K] in plain panels
//   out            [T, N] f32, bf16 or f16; rows may be strided; must overlap neither x nor shared
// The rows of the product are never in memory. Every element of out has one writer, so that its
// bits do not depend on the number of threads. Accuracy: products as GroupedMatmul, combined in
// f32, rounded once. Cost: 2·R·N·K flop. Memory: [T, N] f32 when out is of 16 bits. Threads: blocks
// of columns. Errors (kInvalidArgument): shapes or dtypes that do not fit; an index outside -1 …
// T-1, named with its position; R or T ≥ 2³¹.
// Source: CANN grouped_matmul_finalize_routing.
void GroupedMatmulFinalize(const Context& context, ConstTensorView x,
                           std::span<const int64_t> group_offsets, const PackedWeights& weights,
                           const GroupedMatmulFinalizeOptions& options, TensorView out);

}  // namespace opst

#endif  // OPST_OPS_GROUPED_MATMUL_FUSED_H_
