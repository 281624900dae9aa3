// The activation functions of gated feed-forward experts; the functions only, no operator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_ACTIVATION_H_
#define OPST_OPS_ACTIVATION_H_

#include <cstdint>

namespace opst {

// h = act(gate) · up, or for kClampedSwiglu h = act(gate) · (up + 1). Accuracy of act against fp64:
// SiLU within 4 ulp, GELU within 4 + 6·|u| ulp, u being the argument of tanh (rounding u moves e^2u
// by as much); results below 2^-120 may become 0.
enum class Activation : uint8_t {
  kSilu,      // x / (1 + e^-x), "SwiGLU"
  kGeluTanh,  // x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), "GeGLU"
  kRelu,      // max(x, 0), "ReGLU"
  // g / (1 + e^-alpha·g) · (u + 1), g = min(gate, limit), u = up within ±limit: gpt-oss
  kClampedSwiglu,
};

// Of kClampedSwiglu only.
struct ActivationLimits {
  float alpha = 1.702f;
  float limit = 7.0f;
};

}  // namespace opst

#endif  // OPST_OPS_ACTIVATION_H_
