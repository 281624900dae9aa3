// Packing of weight matrices into panels. Multiplies nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_PACK_H_
#define OPST_PACK_H_

#include <cstddef>

#include "opst/context.h"
#include "opst/packed_weights.h"
#include "opst/tensor.h"

namespace opst {

// Writes W [N, K] as panels of `layout` (order kPlain).
//   weights  [N, K] f32, bf16 or f16, rows may be strided
//   out      layout.matrix_bytes() bytes, aligned to 4; must not overlap the source
// The source dtype's bits are kept when it is the layout's format; other floats are rounded to
// nearest even. Integers are rounded to nearest: int8 with the scale max|w| / 127 of the group,
// int4 with the one of nine scales near max|w| / 8 that has the smallest squared error. |error| ≤
// scale/2 for int8, ≤ 2 scales for int4; mxfp4 with the power of two that puts max|w| into 7 … 14,
// |error| ≤ 2 scales. Weights that are such numbers already, as Q8_0 and Q4_0 of ggml are in groups
// of 32, keep their bits, those of MXFP4 files their values. A group of zeros has scale 1. Runs on
// the calling thread. Throws kInvalidArgument before anything is written when shapes, dtype, order,
// group or alignment do not fit or memory overlaps; and, with `out` partly written, for a weight
// that integers can't hold: NaN, infinite, or so large that its scale is beyond f16.
void PackMatrix(const PanelLayout& layout, ConstTensorView weights, std::byte* out);

// The same for order kGateUp: gate [F, K] and up [F, K], layout.out = 2F.
void PackGateUp(const PanelLayout& layout, ConstTensorView gate, ConstTensorView up,
                std::byte* out);

// Packs E matrices [E, N, K] f32, bf16 or f16 into memory of their own, in parallel over experts;
// for kGateUp, N = 2F with the gate rows first. Cost: one read and one write of the weights.
// Errors: kInvalidArgument, before any work, for another rank, dtype or group or an odd N of
// kGateUp, and for weights that integers can't hold; kOutOfMemory.
PackedWeights PackExperts(const Context& context, ConstTensorView weights, WeightType type,
                          PanelOrder order);

// Packs the transposes of E matrices [E, K, N] f32, bf16 or f16: as PackExperts of [E, N, K],
// kPlain. For weights that other libraries keep as [in, out], and for the gradients of inputs:
// dx = d_out W. Cost and errors as PackExperts.
PackedWeights PackExpertsTransposed(const Context& context, ConstTensorView weights,
                                    WeightType type);

}  // namespace opst

#endif  // OPST_PACK_H_
