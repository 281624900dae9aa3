// Compares tensors element by element; finds no files.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_TENSOR_COMPARE_H_
#define OPST_TOOLS_OPST_TENSOR_COMPARE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "opst/dtype.h"

namespace opst::tool {

// A dense row-major tensor, borrowed.
struct DumpedTensor {
  DType dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// An element is equal when |a - b| <= absolute + relative · |b|, as in numpy.allclose; NaN equals
// NaN, and an infinity itself.
struct Tolerance {
  double absolute = 1e-8;
  double relative = 1e-5;
};

struct Comparison {
  uint64_t num_elements = 0;
  uint64_t num_different = 0;
  double max_absolute = 0;  // |a - b|; infinite where one is NaN or infinite and the other is not
  double max_relative = 0;  // |a - b| / |b|, of elements with b != 0
  std::vector<int64_t> first;  // coordinates of the first different element; empty = none
  double first_a = 0;
  double first_b = 0;
};

// The shapes must be equal, the dtypes need not; integers of 64 bits are compared exactly.
Comparison CompareTensors(const DumpedTensor& a, const DumpedTensor& b, const Tolerance& tolerance);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_TENSOR_COMPARE_H_
