// Exact integer sums of each group of rows, then the scales.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/gmm/int4_product.h"

#include <bit>
#include <numeric>

namespace opst::cann {

std::vector<float> ReadScales(const Run& run, Index tensor) {
  if (tensor == kAbsent || !IsScaleBits(run[tensor].dtype)) return run.Floats(tensor);
  std::vector<float> values;
  for (const int64_t bits : run.Span<const int64_t>(tensor)) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return values;
}

void MultiplyInt4(const Context& context, const int8_t* x, const int8_t* weight,
                  const IntProduct& product, const Int4Columns& columns,
                  const std::function<void(int64_t row, std::span<const float> values)>& finish) {
  const auto width = static_cast<size_t>(product.columns);
  std::vector<int32_t> shifts(columns.scale.size(), 0);  // 8 · ΣW of each group of rows and column
  for (int64_t k = 0; k < product.inner && columns.subtracts_eight; ++k) {
    int32_t* const line = shifts.data() + static_cast<size_t>(product.part_of(k)) * width;
    for (size_t n = 0; n < width; ++n) line[n] += 8 * weight[static_cast<size_t>(k) * width + n];
  }
  MultiplyInts(context, x, weight, product, [&](int64_t row, std::span<const int32_t> sums) {
    std::vector<float> values(width, 0.0f);
    for (size_t i = 0; i < sums.size(); ++i) {
      values[i % width] += static_cast<float>(sums[i] - shifts[i]) * columns.scale[i];
    }
    for (size_t n = 0; n < columns.bias.size(); ++n) values[n] += columns.bias[n];
    if (!columns.offset.empty()) {
      const int8_t* const line = x + row * product.inner;
      const auto row_sum = static_cast<float>(std::accumulate(line, line + product.inner, 0));
      for (size_t n = 0; n < width; ++n) values[n] += columns.offset[n] * row_sum;
    }
    finish(row, values);
  });
}

}  // namespace opst::cann
