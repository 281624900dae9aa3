// Grouped matrix product: consecutive groups of rows, each with a weight matrix of its own.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GROUPED_MATMUL_H_
#define OPST_OPS_GROUPED_MATMUL_H_

#include <cstdint>
#include <span>

#include "opst/context.h"
#include "opst/packed_weights.h"
#include "opst/tensor.h"

namespace opst {

// out[r, n] = Σ_k x[r, k] · W_e[n, k]  for rows r in [group_offsets[e], group_offsets[e+1])
//   x              [R, K] f32, bf16 or f16; rows may be strided
//   group_offsets  [E+1] ascending, first 0, last R; empty groups allowed
//   weights        E matrices [N, K] in plain panels
//   out            [R, N] f32, bf16 or f16; rows may be strided; must not overlap x
// Accuracy: f32 accumulation, one chain of multiply-adds per element with k ascending, rounded once
// to out's dtype; |error| ≤ K·2⁻²⁴·Σ|x·W| to first order + the rounding. That holds on every
// instruction set: where product and sum are rounded apart (SSE2) a product passes one rounding of
// its own and, as the first sum (0 + product) is exact, at most K - 1 of sums.
// A row's bits depend on nothing but that row and W. Cost: 2·R·N·K flop, the weights of non-empty
// groups read once per 128 rows of a group. Threads: tasks of (group, rows, columns) from a queue.
// Errors (kInvalidArgument): shapes or dtypes that do not fit, offsets that are not ascending.
void GroupedMatmul(const Context& context, ConstTensorView x,
                   std::span<const int64_t> group_offsets, const PackedWeights& weights,
                   TensorView out);

// The same with one group: out = x Wᵀ.
void Matmul(const Context& context, ConstTensorView x, const PackedWeights& weights,
            TensorView out);

}  // namespace opst

#endif  // OPST_OPS_GROUPED_MATMUL_H_
