// Chooses the scale of a group: the largest weight's for int8, the best of a few for int4, its
// power of two for mxfp4.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "pack/quantize_group.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/quantize.h"

namespace opst {
namespace {

// The nearest f16 that is no smaller in magnitude: rounding a scale down would clip the largest
// weight.
F16 RoundedUp(float scale) {
  F16 half = ToF16(scale);
  if (std::abs(ToFloat(half)) < std::abs(scale)) ++half.bits;
  return half;
}

// The weight of largest magnitude, with its sign; kInvalidArgument if a scale can't hold it.
float Extreme(WeightFormat format, std::span<const float> weights) {
  constexpr float kLargestHalf = 65504.0f;
  const float code = format == WeightFormat::kInt8 ? 127.0f : 7.0f;
  const float limit = format == WeightFormat::kMxfp4 ? 12 * 0x1p15f : kLargestHalf * code;
  float extreme = 0;
  for (const float weight : weights) {
    OPST_CHECK_ARG(std::abs(weight) <= limit, "pack",
                   Concat("weights must be finite and at most ", static_cast<int64_t>(limit),
                          " for ", Name(format)),
                   weight);
    if (std::abs(weight) > std::abs(extreme)) extreme = weight;
  }
  return extreme;
}

// Sets the codes of a scale; returns the sum of squared errors.
float Round(std::span<const float> weights, float least, float most, GroupCodes& group) {
  const float scale = ToFloat(group.scale);
  return RoundToCodes(weights.data(), weights.size(), scale, 1.0f / scale, least, most,
                      group.codes.data());
}

// The extreme may lie anywhere from code -9 (clipped by one step) to -7; the first candidate has it
// exactly on -8, and weights that are such codes already have no error there.
GroupCodes QuantizeToInt4(std::span<const float> weights, float extreme) {
  constexpr std::array<float, 9> kExtremeCodes = {-8,    -7,   -7.25, -7.5, -7.75,
                                                  -8.25, -8.5, -8.75, -9};
  GroupCodes best{};
  float least_error = INFINITY;
  for (const float code : kExtremeCodes) {
    GroupCodes candidate{};
    candidate.scale = RoundedUp(extreme / code);
    const float error = Round(weights, -8, 7, candidate);
    if (error >= least_error) continue;
    least_error = error;
    best = candidate;
  }
  return best;
}

// The nearest of the values of either sign, the even code of two that are as near.
int8_t NearestMxfp4(float scaled) {
  size_t best = 0;
  for (size_t code = 1; code < 8; ++code) {
    const float error = std::abs(std::abs(scaled) - kMxfp4Values[code]);
    const float least = std::abs(std::abs(scaled) - kMxfp4Values[best]);
    if (error < least || (error == least && code % 2 == 0)) best = code;
  }
  return static_cast<int8_t>(scaled < 0 ? -kMxfp4Values[best] : kMxfp4Values[best]);
}

// The scale puts the largest weight into 7 … 14, where a code is within 2. Weights that are codes
// times a power of two keep their value, if that fits f16: a largest code below 8 only moves to a
// smaller scale.
GroupCodes QuantizeToMxfp4(std::span<const float> weights, float extreme) {
  constexpr int kLeastExponent = -24;
  constexpr int kMostExponent = 15;
  const int binade = std::ilogb(extreme) - 3;
  const bool is_nearer_to_next = std::ldexp(std::abs(extreme), -binade) > 14;
  const int exponent =
      std::clamp(binade + (is_nearer_to_next ? 1 : 0), kLeastExponent, kMostExponent);
  GroupCodes group{ToF16(std::ldexp(1.0f, exponent)), {}};
  for (size_t i = 0; i < weights.size(); ++i) {
    group.codes[i] = NearestMxfp4(std::ldexp(weights[i], -exponent));
  }
  return group;
}

}  // namespace

GroupCodes QuantizeGroup(WeightFormat format, std::span<const float> weights) {
  const float extreme = Extreme(format, weights);
  if (extreme == 0) return {ToF16(1.0f), {}};
  if (format == WeightFormat::kInt4) return QuantizeToInt4(weights, extreme);
  if (format == WeightFormat::kMxfp4) return QuantizeToMxfp4(weights, extreme);
  GroupCodes group{RoundedUp(std::abs(extreme) / 127.0f), {}};
  Round(weights, -127, 127, group);
  return group;
}

}  // namespace opst
