// Floats go through packed panels; integers through plain loops whose sums are exact.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/gmm/matrix_product.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "ops/permute/row_blocks.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/pack.h"

namespace opst::cann {
namespace {

constexpr int64_t kMaxInner = int64_t{1} << 17;  // |x · w| is at most 2¹⁴

}  // namespace

void MultiplyFloats(const Context& context, ConstTensorView x, ConstTensorView weight,
                    std::span<const float> bias, TensorView out) {
  const int64_t rows = x.dim(0), inner = x.dim(1), columns = out.dim(1);
  if (rows == 0 || columns == 0) return;
  if (inner == 0) {  // a sum of nothing
    const Tensor none(DType::kF32, Shape{rows, 1}), zero(DType::kF32, Shape{1, columns});
    return MultiplyFloats(context, none.view(), zero.view(), bias, out);
  }
  const ConstTensorView stacked(weight.data(), weight.dtype(), Shape{1, inner, columns});
  const PackedWeights packed = PackExpertsTransposed(context, stacked, FormatOf(weight.dtype()));
  GroupedMatmulOptions options;
  if (!bias.empty()) options.bias = ConstTensorView(bias.data(), Shape{1, columns});
  GroupedMatmul(context, x, std::array<int64_t, 2>{0, rows}, packed, options, out);
}

void MultiplyInts(const Context& context, const int8_t* x, const int8_t* weight,
                  const IntProduct& product,
                  const std::function<void(int64_t row, std::span<const int32_t> sums)>& finish) {
  const int64_t inner = product.inner, columns = product.columns;
  OPST_CHECK_ARG(inner < kMaxInner, "cann", "integer products must have less than 2^17 terms",
                 inner);
  ForRowBlocks(context, product.rows, kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> sums(static_cast<size_t>(product.parts * columns));
    for (int64_t row = begin; row < end; ++row) {
      std::fill(sums.begin(), sums.end(), 0);
      for (int64_t k = 0; k < inner; ++k) {
        const int32_t factor = x[row * inner + k];
        const int8_t* const line = weight + k * columns;
        int32_t* const part = sums.data() + product.part_of(k) * columns;
        for (int64_t n = 0; n < columns; ++n) part[n] += factor * line[n];
      }
      finish(row, sums);
    }
  });
}

std::vector<int8_t> UnpackInt4(const std::byte* packed, int64_t first, int64_t count) {
  std::vector<int8_t> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t at = static_cast<size_t>(first) + i;
    const int bits = std::to_integer<int>(packed[at / 2]) >> (at % 2 == 0 ? 0 : 4) & 15;
    values[i] = static_cast<int8_t>(bits < 8 ? bits : bits - 16);
  }
  return values;
}

}  // namespace opst::cann
