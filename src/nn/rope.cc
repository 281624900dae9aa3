// Frequencies and angles by libm, rotation by the vector kernel.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "nn/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/norm.h"

namespace opst {
namespace {

using Scaling = RopeRecipe::Scaling;

float PairExponent(const RopeRecipe& recipe, size_t pair) {
  return static_cast<float>(2 * pair) / static_cast<float>(recipe.dim);
}

std::vector<float> Unscaled(const RopeRecipe& recipe, float theta) {
  std::vector<float> frequencies;
  for (size_t pair = 0; pair < static_cast<size_t>(recipe.dim / 2); ++pair) {
    frequencies.push_back(1.0f / std::pow(theta, PairExponent(recipe, pair)));
  }
  return frequencies;
}

// theta for a text of `length` positions, such that the slowest pair turns as far as it did at the
// end of the trained length.
float DynamicTheta(const RopeRecipe& recipe, int64_t length) {
  const auto original = static_cast<double>(recipe.original_positions);
  const double longest = std::max(static_cast<double>(length), original);
  const double growth = recipe.factor * longest / original - (recipe.factor - 1);
  const auto dim = static_cast<double>(recipe.dim);
  return static_cast<float>(static_cast<double>(recipe.theta) * std::pow(growth, dim / (dim - 2)));
}

// The pair, not necessarily a whole number, that turns `rotations` times in the trained length.
double PairOfRotations(const RopeRecipe& recipe, double rotations) {
  const auto length = static_cast<double>(recipe.original_positions);
  return static_cast<double>(recipe.dim) * std::log(length / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(static_cast<double>(recipe.theta)));
}

void ScaleYarn(const RopeRecipe& recipe, std::vector<float>& frequencies) {
  double low = PairOfRotations(recipe, recipe.beta_fast);
  double high = PairOfRotations(recipe, recipe.beta_slow);
  if (recipe.truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(recipe.dim - 1));
  if (low == high) high += 0.001;  // no ramp of length zero
  for (size_t pair = 0; pair < frequencies.size(); ++pair) {
    const auto ramp =
        static_cast<float>(std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0));
    const auto slow = frequencies[pair] / static_cast<float>(recipe.factor);
    frequencies[pair] = slow * ramp + frequencies[pair] * (1 - ramp);
  }
}

void ScaleLlama3(const RopeRecipe& recipe, std::vector<float>& frequencies) {
  const auto length = static_cast<double>(recipe.original_positions);
  const double low = recipe.low_frequency_factor;
  const double high = recipe.high_frequency_factor;
  for (float& frequency : frequencies) {
    const double rotations = length * static_cast<double>(frequency) / (2 * std::numbers::pi);
    const double kept = std::clamp((rotations - low) / (high - low), 0.0, 1.0);
    const auto value = static_cast<double>(frequency);
    frequency = static_cast<float>((1 - kept) * value / recipe.factor + kept * value);
  }
}

void Divide(const std::vector<float>& divisors, std::vector<float>& frequencies) {
  for (size_t pair = 0; pair < frequencies.size(); ++pair) frequencies[pair] /= divisors[pair];
}

}  // namespace

Rope::Rope(const RopeRecipe& recipe)
    : recipe_(recipe), frequencies_(Unscaled(recipe, recipe.theta)) {
  switch (recipe.scaling) {
    case Scaling::kNone:
    case Scaling::kDynamic:
      return;
    case Scaling::kLinear:
      for (float& frequency : frequencies_) frequency /= static_cast<float>(recipe.factor);
      return;
    case Scaling::kYarn:
      ScaleYarn(recipe, frequencies_);
      return;
    case Scaling::kLlama3:
      ScaleLlama3(recipe, frequencies_);
      return;
    case Scaling::kLongRope:
      long_frequencies_ = frequencies_;
      Divide(recipe.short_factors, frequencies_);
      Divide(recipe.long_factors, long_frequencies_);
      return;
  }
}

std::vector<float> Rope::FrequenciesOf(int64_t length) const {
  if (!recipe_.depends_on_length() || length <= recipe_.original_positions) return frequencies_;
  if (recipe_.scaling == Scaling::kLongRope) return long_frequencies_;
  return Unscaled(recipe_, DynamicTheta(recipe_, length));
}

Rope::Angles Rope::At(int64_t position, int64_t length) const {
  length = std::max(length, position + 1);
  const bool is_long = recipe_.scaling == Scaling::kLongRope && length > recipe_.original_positions;
  const float amplitude = is_long ? recipe_.long_amplitude : recipe_.amplitude;
  Angles angles;
  for (const float frequency : FrequenciesOf(length)) {
    const float angle = static_cast<float>(position) * frequency;
    angles.cosines.push_back(std::cos(angle) * amplitude);
    angles.sines.push_back(std::sin(angle) * amplitude);
  }
  return angles;
}

void Rope::Rotate(const Angles& angles, int64_t num_heads, int64_t head_stride,
                  float* heads) const {
  const size_t half = angles.cosines.size();
  const auto rotate = recipe_.is_interleaved ? RotatePairs : RotateHalves;
  for (int64_t head = 0; head < num_heads; ++head) {
    rotate(heads + head * head_stride, half, angles.cosines.data(), angles.sines.data());
  }
}

}  // namespace opst
