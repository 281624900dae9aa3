// Layouts of weights, one element after the other.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/gmm/weight_matrix.h"

#include "cann/src/descriptors/descriptors.h"
#include "cann/src/gmm/matrix_product.h"

namespace opst::cann {
namespace {

// The fractal layout: blocks of 16 rows and 32 bytes, columns of blocks first.
constexpr int64_t kBlockRows = 16;

// 0 where CANN has no such layout.
int64_t BlockColumns(aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT16:
    case ACL_BF16:
      return 16;
    case ACL_INT8:
      return 32;
    case ACL_INT4:
    case ACL_INT32:  // eight int4 each
      return 64;
    default:
      return 0;
  }
}

template <typename T>
std::vector<T> FromBlocks(const T* blocks, const WeightShape& shape, int64_t block_columns) {
  std::vector<T> matrix(static_cast<size_t>(shape.inner * shape.columns));
  for (int64_t k = 0; k < shape.inner; ++k) {
    for (int64_t n = 0; n < shape.columns; ++n) {
      const int64_t block = n / block_columns * (shape.inner / kBlockRows) + k / kBlockRows;
      const int64_t at = (block * kBlockRows + k % kBlockRows) * block_columns + n % block_columns;
      matrix[static_cast<size_t>(k * shape.columns + n)] = blocks[at];
    }
  }
  return matrix;
}

}  // namespace

WeightShape ShapeOfWeight(const Operand& weight) {
  std::vector<int64_t> dims = weight.dims;
  if (weight.dtype == ACL_INT32 && !dims.empty()) dims.back() *= 8;
  const int64_t block = BlockColumns(weight.dtype);
  int64_t experts = 0;
  if (dims.size() == 3 || (dims.size() == 5 && weight.is_fractal())) {
    experts = dims.front();
    dims.erase(dims.begin());
    if (experts == 0) return {};
  }
  if (weight.is_fractal() && (block == 0 || !weight.is_contiguous())) return {};
  if (weight.is_fractal() && dims.size() == 4) {
    if (dims[2] != kBlockRows || dims[3] != block) return {};
    return {experts, dims[1] * kBlockRows, dims[0] * block};
  }
  if (dims.size() != 2) return {};
  if (weight.is_fractal() && (dims[0] % kBlockRows != 0 || dims[1] % block != 0)) return {};
  return {experts, dims[0], dims[1]};
}

std::vector<int8_t> ReadIntWeight(const Run& run, Index weight, const WeightShape& shape,
                                  int64_t expert) {
  const Operand& operand = run[weight];
  const int64_t count = shape.inner * shape.columns, first = expert * count;
  std::vector<int8_t> matrix;
  if (operand.dtype == ACL_INT8) {
    const int8_t* const data = reinterpret_cast<const int8_t*>(run.data(weight)) + first;
    matrix.assign(data, data + count);
  } else {
    matrix = UnpackInt4(run.data(weight), first, count);
  }
  if (!operand.is_fractal()) return matrix;
  return FromBlocks(matrix.data(), shape, BlockColumns(operand.dtype));
}

ConstTensorView ReadFloatWeight(const Run& run, Index weight, const WeightShape& shape,
                                int64_t expert, std::vector<uint16_t>& copy) {
  const Operand& operand = run[weight];
  const std::byte* data =
      run.data(weight) +
      static_cast<size_t>(expert * shape.inner * shape.columns) * aclDataTypeSize(operand.dtype);
  if (operand.is_fractal()) {
    copy = FromBlocks(reinterpret_cast<const uint16_t*>(data), shape, BlockColumns(operand.dtype));
    data = reinterpret_cast<const std::byte*>(copy.data());
  }
  return {data, ToDType(operand.dtype), Shape{shape.inner, shape.columns}};
}

}  // namespace opst::cann
