// Products of row groups with weights as CANN stores them, [in, out]: over GroupedMatmul for
// floats, exact integer sums for int8.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_GMM_MATRIX_PRODUCT_H_
#define OPST_CANN_GMM_MATRIX_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "opst/context.h"
#include "opst/tensor.h"

namespace opst::cann {

// out = x · W + bias, f32 sums rounded once.
//   x [R,K], weight [K,N], out [R,N]: f32, bf16 or f16;  bias [N] f32, or empty
void MultiplyFloats(const Context& context, ConstTensorView x, ConstTensorView weight,
                    std::span<const float> bias, TensorView out);

// x [R,K] · W [K,N] with sums over each of `parts` equal groups of the inner dim.
struct IntProduct {
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
  int64_t parts = 1;  // divides K

  int64_t part_of(int64_t k) const { return k / (inner / parts); }
};

// Gives the sums of each row, [parts,N] of Σ_k x[r,k] · W[k,n], to `finish`, which may run on any
// worker.
//   x [R,K] and weight [K,N] int8, contiguous; weights of int4 are unpacked before; K < 2¹⁷, so
//   that the sums fit
void MultiplyInts(const Context& context, const int8_t* x, const int8_t* weight,
                  const IntProduct& product,
                  const std::function<void(int64_t row, std::span<const int32_t> sums)>& finish);

// `count` signed four-bit numbers from number `first` on; the lower half of a byte comes first.
std::vector<int8_t> UnpackInt4(const std::byte* packed, int64_t first, int64_t count);

}  // namespace opst::cann

#endif  // OPST_CANN_GMM_MATRIX_PRODUCT_H_
