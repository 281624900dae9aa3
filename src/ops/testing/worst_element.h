// Finds the element of a result that is worst against its own tolerance, to report its place; for
// tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_TESTING_WORST_ELEMENT_H_
#define OPST_OPS_TESTING_WORST_ELEMENT_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>

#include "opst/dtype.h"

namespace opst {

class WorstElement {
 public:
  // NaN equals NaN only, infinity only itself.
  void Add(int64_t row, int64_t column, double got, double wanted, double tolerance) {
    const double ratio = Ratio(got, wanted, tolerance);
    if (ratio < ratio_) return;
    *this = {ratio, row, column, got, wanted, tolerance};
  }

  bool is_within_tolerance() const { return ratio_ <= 1; }

  friend std::ostream& operator<<(std::ostream& stream, const WorstElement& worst) {
    return stream << "worst at [" << worst.row_ << "," << worst.column_ << "]: got " << worst.got_
                  << ", wanted " << worst.wanted_ << ", error " << worst.got_ - worst.wanted_
                  << " for a tolerance of " << worst.tolerance_;
  }

  WorstElement() = default;

 private:
  WorstElement(double ratio, int64_t row, int64_t column, double got, double wanted,
               double tolerance)
      : ratio_(ratio),
        row_(row),
        column_(column),
        got_(got),
        wanted_(wanted),
        tolerance_(tolerance) {}

  static double Ratio(double got, double wanted, double tolerance) {
    if (std::isnan(got) && std::isnan(wanted)) return 0;
    if (got == wanted) return 0;
    const double error = std::abs(got - wanted);
    if (std::isnan(error) || std::isinf(error)) return std::numeric_limits<double>::infinity();
    return tolerance > 0 ? error / tolerance : std::numeric_limits<double>::infinity();
  }

  double ratio_ = 0;
  int64_t row_ = 0;
  int64_t column_ = 0;
  double got_ = 0;
  double wanted_ = 0;
  double tolerance_ = 0;
};

// Half a unit in the last place of `value` in a type, denormals included.
inline double RoundingError(DType dtype, double value) {
  switch (dtype) {
    case DType::kBf16:
      return 0x1p-8 * std::abs(value) + 0x1p-134;
    case DType::kF16:
      return 0x1p-11 * std::abs(value) + 0x1p-25;
    default:
      return 0x1p-24 * std::abs(value) + 0x1p-150;
  }
}

// Error of a chain of n f32 multiply-adds whose products have the absolute sum `magnitude`. A
// product passes at most n roundings: fused, those of the n steps; else its own and n - 1 of sums
// when the chain starts at 0 (0 + product is exact), n sums when it starts at a value, hence n + 1.
inline double ChainError(int64_t n, double magnitude) {
  return 1.001 * static_cast<double>(n + 1) * 0x1p-24 * magnitude;
}

}  // namespace opst

#endif  // OPST_OPS_TESTING_WORST_ELEMENT_H_
