// The activation functions that CANN's grouped products and feed-forward layers name, in f32.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_GMM_ACTIVATION_H_
#define OPST_CANN_GMM_ACTIVATION_H_

#include <algorithm>
#include <cmath>

namespace opst::cann {

inline float Relu(float x) { return std::max(x, 0.0f); }
inline float Silu(float x) { return x / (1 + std::exp(-x)); }
inline float FastGelu(float x) { return x / (1 + std::exp(-1.702f * x)); }
inline float GeluTanh(float x) {
  return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}

}  // namespace opst::cann

#endif  // OPST_CANN_GMM_ACTIVATION_H_
