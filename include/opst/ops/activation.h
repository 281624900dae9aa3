// The activation functions of gated feed-forward experts; the functions only, no operator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_ACTIVATION_H_
#define OPST_OPS_ACTIVATION_H_

#include <cstdint>

namespace opst {

// h = act(gate) · up. Accuracy: within 4 ulp of the fp64 value, SiLU and GELU by vector exp.
enum class Activation : uint8_t {
  kSilu,      // x / (1 + e^-x), "SwiGLU"
  kGeluTanh,  // x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), "GeGLU"
  kRelu,      // max(x, 0), "ReGLU"
};

}  // namespace opst

#endif  // OPST_OPS_ACTIVATION_H_
