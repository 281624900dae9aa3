// Turns a row of f32 into int8 with a scale of its own. Where rows come from is the operators'
// part.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_PERMUTE_DYNAMIC_INT8_H_
#define OPST_OPS_PERMUTE_DYNAMIC_INT8_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/quantize.h"

namespace opst {

// out[i] = int8(values[i] / scale), scale = max|values| / 127, which is returned. NaN or infinity
// give zeros and the scale NaN.
inline float QuantizeDynamic(const float* values, size_t n, int8_t* out) {
  const float most = MaxAbs(values, n);
  if (!std::isfinite(most)) {
    std::memset(out, 0, n);
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = most / 127.0f;
  // A scale that is denormal or 0 has no usable reciprocal; such a row is 0.
  if (scale < std::numeric_limits<float>::min()) {
    std::memset(out, 0, n);
    return 0;
  }
  ToInt8(values, n, 1.0f / scale, 0, out);
  return scale;
}

}  // namespace opst

#endif  // OPST_OPS_PERMUTE_DYNAMIC_INT8_H_
