// The activation functions as their formulas read, shared by the references.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_REF_ACTIVATE_H_
#define OPST_OPS_REF_ACTIVATE_H_

#include <cmath>

#include "opst/ops/activation.h"

namespace opst::ref {

// In double, so that the formulas may stand as they are written: at negative x, GELU is a small
// difference of large numbers.
inline float Activate(Activation activation, const ActivationLimits& limits, double x) {
  switch (activation) {
    case Activation::kSilu:
      return static_cast<float>(x / (1 + std::exp(-x)));
    case Activation::kGeluTanh:
      return static_cast<float>(x / 2 *
                                (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
    case Activation::kRelu:
      return static_cast<float>(x < 0 ? 0 : x);  // keeps NaN
    case Activation::kGelu:
      return static_cast<float>(x / 2 * std::erfc(-x / std::sqrt(2.0)));
    case Activation::kQuickGelu:
      return static_cast<float>(x / (1 + std::exp(-1.702 * x)));
    case Activation::kClampedSwiglu: {
      const double gate =
          x > static_cast<double>(limits.limit) ? static_cast<double>(limits.limit) : x;
      return static_cast<float>(gate / (1 + std::exp(-static_cast<double>(limits.alpha) * gate)));
    }
  }
  return static_cast<float>(x);
}

}  // namespace opst::ref

#endif  // OPST_OPS_REF_ACTIVATE_H_
