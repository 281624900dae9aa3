// Movement of rows by an index list: gather, and scatter-add with weights. Operators that follow a
// whole routing plan are in permute.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_SPARSE_ROWS_H_
#define OPST_OPS_SPARSE_ROWS_H_

#include "opst/context.h"
#include "opst/ops/output_mode.h"
#include "opst/tensor.h"

namespace opst {

// out[r] = x[row_indices[r]];  rows of index -1 become 0
//   x            [T, H] of any dtype; rows may be strided
//   row_indices  [R] i32, contiguous; -1 or 0 … T-1, in any order, repeated at will
//   out          [R, H] of x's dtype; rows may be strided; must not overlap x
// Bits are copied. Cost: R·H elements read and written. Threads: blocks of rows.
// Errors (kInvalidArgument): shapes or dtypes that do not fit; an index outside -1 … T-1, named
// with its position, before anything is written.
void SparseGather(const Context& context, ConstTensorView x, ConstTensorView row_indices,
                  TensorView out);

// out[t] = Σ_r weights[r] · rows[r] over the rows with row_indices[r] = t, ascending in r; with
// kAdd the sum starts at out[t]
//   rows         [R, H] f32, bf16 or f16; rows may be strided
//   row_indices  [R] i32, contiguous; -1 = the row goes nowhere and is not read, else 0 … T-1
//   weights      [R] f32, contiguous, or an empty view: all 1
//   out          [T, H] f32, bf16 or f16; rows may be strided; must not overlap rows
// One writer per output row, so the bits do not depend on the number of threads. Accuracy: f32
// multiply-adds, rounded once. Cost: R·H elements read, T·H written, a counting sort of R indices.
// Threads: blocks of output rows.
// Errors (kInvalidArgument): as above; R or T ≥ 2³¹.
// Source: MegaBlocks, arXiv:2211.15841 (padded scatter), here without padding.
void SparseScatterAdd(const Context& context, ConstTensorView rows, ConstTensorView row_indices,
                      ConstTensorView weights, OutputMode mode, TensorView out);

}  // namespace opst

#endif  // OPST_OPS_SPARSE_ROWS_H_
