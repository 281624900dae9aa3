// The activation functions of feed-forward experts; the functions only, no operator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_ACTIVATION_H_
#define OPST_OPS_ACTIVATION_H_

#include <cstdint>

namespace opst {

// Of gated experts h = act(gate) · up, or for kClampedSwiglu h = act(gate) · (up + 1); of experts
// without a gate h = act(up). Accuracy of act against fp64: SiLU and QuickGELU within 4 ulp +
// 2·|x|, GELU within 8 + x² ulp, its tanh form within 4 + 6·|u| ulp, u being the argument of tanh
// (rounding the argument of an exponential moves it by as much); results below 2^-120 may become 0.
enum class Activation : uint8_t {
  kSilu,      // x / (1 + e^-x), "SwiGLU"
  kGeluTanh,  // x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), "GeGLU"
  kRelu,      // max(x, 0), "ReGLU"
  // g / (1 + e^-alpha·g) · (u + 1), g = min(gate, limit), u = up within ±limit: gpt-oss. Gated only
  kClampedSwiglu,
  kGelu,       // x · Φ(x), Φ the normal distribution, "gelu" of PyTorch
  kQuickGelu,  // x / (1 + e^-1.702x), CANN's fast GELU
};

// Of kClampedSwiglu only.
struct ActivationLimits {
  float alpha = 1.702f;
  float limit = 7.0f;
};

}  // namespace opst

#endif  // OPST_OPS_ACTIVATION_H_
