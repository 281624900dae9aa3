// Layouts of integer weights, one element after the other.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/gmm/int_weight.h"

#include "cann/src/gmm/matrix_product.h"

namespace opst::cann {
namespace {

// The fractal layout of int8: blocks of 16 rows and 32 columns, columns of blocks first.
constexpr int64_t kBlockRows = 16;
constexpr int64_t kBlockColumns = 32;

}  // namespace

IntWeightShape ShapeOfIntWeight(const Operand& weight) {
  const std::vector<int64_t>& dims = weight.dims;
  if (weight.is_fractal() && dims.size() == 5 && dims[3] == kBlockRows &&
      dims[4] == kBlockColumns) {
    return {dims[0], dims[2] * kBlockRows, dims[1] * kBlockColumns};
  }
  if (dims.size() != 3) return {};
  if (weight.is_fractal()) {
    const bool is_whole =
        dims[1] % kBlockRows == 0 && dims[2] % kBlockColumns == 0 && weight.dtype == ACL_INT8;
    return is_whole ? IntWeightShape{dims[0], dims[1], dims[2]} : IntWeightShape{};
  }
  return {dims[0], dims[1], dims[2] * (weight.dtype == ACL_INT32 ? 8 : 1)};
}

std::vector<int8_t> ReadIntWeight(const Run& run, Index weight, const IntWeightShape& shape,
                                  int64_t expert) {
  const int64_t count = shape.inner * shape.columns, first = expert * count;
  if (run[weight].dtype != ACL_INT8) return UnpackInt4(run.data(weight), first, count);
  const int8_t* const data = reinterpret_cast<const int8_t*>(run.data(weight)) + first;
  std::vector<int8_t> matrix(data, data + count);
  if (!run[weight].is_fractal()) return matrix;
  for (int64_t k = 0; k < shape.inner; ++k) {
    for (int64_t n = 0; n < shape.columns; ++n) {
      const int64_t block = n / kBlockColumns * (shape.inner / kBlockRows) + k / kBlockRows;
      const int64_t at = (block * kBlockRows + k % kBlockRows) * kBlockColumns + n % kBlockColumns;
      matrix[static_cast<size_t>(k * shape.columns + n)] = data[at];
    }
  }
  return matrix;
}

}  // namespace opst::cann
