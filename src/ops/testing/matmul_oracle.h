// The grouped matrix product in fp64 with the tolerance of every element; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_TESTING_MATMUL_ORACLE_H_
#define OPST_OPS_TESTING_MATMUL_ORACLE_H_

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/testing/matrix.h"
#include "ops/testing/worst_element.h"

namespace opst {

// A dot product, and the sum of the products' magnitudes.
struct DotProduct {
  double value = 0;
  double magnitude = 0;
};

inline DotProduct Dot(const std::vector<double>& a, const std::vector<double>& b) {
  DotProduct dot;
  for (size_t i = 0; i < a.size(); ++i) {
    dot.value += a[i] * b[i];
    dot.magnitude += std::abs(a[i] * b[i]);
  }
  return dot;
}

// Compares out with x W(group)^T. `weights` holds the groups' [N, K] matrices one below the other.
inline WorstElement CompareMatmul(const Matrix& x, std::span<const int64_t> offsets,
                                  const Matrix& weights, const Matrix& out) {
  WorstElement worst;
  const int64_t width = out.columns();
  for (size_t group = 0; group + 1 < offsets.size(); ++group) {
    if (offsets[group] == offsets[group + 1]) continue;
    std::vector<std::vector<double>> columns;
    for (int64_t n = 0; n < width; ++n) {
      columns.push_back(weights.Row(static_cast<int64_t>(group) * width + n));
    }
    for (int64_t row = offsets[group]; row < offsets[group + 1]; ++row) {
      const std::vector<double> input = x.Row(row);
      for (int64_t n = 0; n < width; ++n) {
        const DotProduct dot = Dot(input, columns[static_cast<size_t>(n)]);
        const double tolerance =
            ChainError(x.columns(), dot.magnitude) + 1.01 * RoundingError(out.dtype(), dot.value);
        worst.Add(row, n, out.At(row, n), dot.value, tolerance);
      }
    }
  }
  return worst;
}

}  // namespace opst

#endif  // OPST_OPS_TESTING_MATMUL_ORACLE_H_
