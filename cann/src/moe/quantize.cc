// The chains of roundings, one element after the other. f16 comes from the project's conversions.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/moe/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/quantize.h"
#include "opst/dtype.h"

namespace opst::cann {
namespace {

float InF16(float value) { return ToFloat(ToF16(value)); }

// To f16 towards zero.
float TruncatedToF16(float value) {
  const F16 nearest = ToF16(value);
  if (std::abs(ToFloat(nearest)) <= std::abs(value)) return ToFloat(nearest);
  return ToFloat(F16{static_cast<uint16_t>(nearest.bits - 1)});  // one step closer to zero
}

int8_t Saturated(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<int8_t>(std::clamp(value, -128.0f, 127.0f));
}

// The scale of a row, or 0 and NaN for rows that have none: those are zero in int8.
template <typename Round>
float QuantizeRow(std::span<const float> v, int8_t* q, const Round& round) {
  const float largest = MaxAbs(v.data(), v.size());
  const float scale = largest / 127.0f;
  if (!std::isfinite(largest) || scale < std::numeric_limits<float>::min()) {
    std::fill_n(q, v.size(), int8_t{0});
    return std::isfinite(largest) ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  for (size_t i = 0; i < v.size(); ++i) q[i] = Saturated(round(v[i], largest, scale));
  return scale;
}

}  // namespace

void QuantizeStatic(std::span<const float> x, float scale, float offset, int8_t* q) {
  const float factor = InF16(scale);
  const float summand = InF16(offset);
  for (size_t i = 0; i < x.size(); ++i) {
    q[i] = Saturated(std::nearbyint(InF16(InF16(InF16(x[i]) * factor) + summand)));
  }
}

float QuantizeDynamic(std::span<const float> v, int8_t* q) {
  return QuantizeRow(v, q, [](float value, float, float scale) {
    return std::round(TruncatedToF16(value / scale));
  });
}

float QuantizeProduct(std::span<const float> v, int8_t* q) {
  return QuantizeRow(v, q, [](float value, float, float scale) {
    return std::nearbyint(InF16(value * (1.0f / scale)));
  });
}

float QuantizeForDispatch(std::span<const float> v, int8_t* q) {
  const float scale = QuantizeRow(v, q, [](float value, float largest, float) {
    return InF16(std::nearbyint(value * (127.0f / largest)));
  });
  return scale > 0 ? 1.0f / (127.0f / MaxAbs(v.data(), v.size())) : scale;
}

}  // namespace opst::cann
