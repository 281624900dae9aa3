// Reads elements as f64, or as integers where both sides are.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor_compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace opst::tool {
namespace {

template <typename T>
T ElementAt(const DumpedTensor& tensor, uint64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

bool IsFloat(DType dtype) { return IsModelFloat(dtype) || dtype == DType::kF64; }

int64_t IntegerAt(const DumpedTensor& tensor, uint64_t index) {
  switch (tensor.dtype) {
    case DType::kI8:
      return ElementAt<int8_t>(tensor, index);
    case DType::kI16:
      return ElementAt<int16_t>(tensor, index);
    case DType::kI32:
      return ElementAt<int32_t>(tensor, index);
    case DType::kI64:
      return ElementAt<int64_t>(tensor, index);
    default:
      return ElementAt<uint8_t>(tensor, index);
  }
}

double NumberAt(const DumpedTensor& tensor, uint64_t index) {
  switch (tensor.dtype) {
    case DType::kF32:
      return ElementAt<float>(tensor, index);
    case DType::kF64:
      return ElementAt<double>(tensor, index);
    case DType::kBf16:
      return ToFloat(ElementAt<Bf16>(tensor, index));
    case DType::kF16:
      return ToFloat(ElementAt<F16>(tensor, index));
    default:
      return static_cast<double>(IntegerAt(tensor, index));
  }
}

// Infinite unless both are finite, or the same.
double Distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double distance = std::abs(a - b);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

std::vector<int64_t> Coordinates(uint64_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> place(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    const auto extent = static_cast<uint64_t>(shape[i]);
    place[i] = static_cast<int64_t>(index % extent);
    index /= extent;
  }
  return place;
}

}  // namespace

Comparison CompareTensors(const DumpedTensor& a, const DumpedTensor& b,
                          const Tolerance& tolerance) {
  Comparison result;
  result.num_elements = a.bytes.size() / ByteSize(a.dtype);
  const bool are_integers = !IsFloat(a.dtype) && !IsFloat(b.dtype);
  for (uint64_t i = 0; i < result.num_elements; ++i) {
    const double left = NumberAt(a, i);
    const double right = NumberAt(b, i);
    double distance = Distance(left, right);
    // Neighbours beyond 2^53 are the same f64.
    if (are_integers && distance == 0 && IntegerAt(a, i) != IntegerAt(b, i)) distance = 1;
    result.max_absolute = std::max(result.max_absolute, distance);
    if (right != 0 && !std::isnan(right)) {
      const double relative = std::isinf(right) ? distance : distance / std::abs(right);
      result.max_relative = std::max(result.max_relative, relative);
    }
    const double most = tolerance.absolute + tolerance.relative * std::abs(right);
    const bool is_equal = distance == 0 || (std::isfinite(distance) && distance <= most);
    if (is_equal) continue;
    if (result.num_different++ > 0) continue;
    result.first = Coordinates(i, a.shape);
    result.first_a = left;
    result.first_b = right;
  }
  return result;
}

}  // namespace opst::tool
