// Angles of every scaling against the published formulas in fp64.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "nn/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace opst {
namespace {

using Scaling = RopeRecipe::Scaling;

RopeRecipe Recipe(Scaling scaling) {
  RopeRecipe recipe;
  recipe.theta = 500.0f;
  recipe.dim = 12;
  recipe.scaling = scaling;
  recipe.factor = 4;
  recipe.original_positions = 64;
  return recipe;
}

double Plain(const RopeRecipe& recipe, double theta, int pair) {
  return std::pow(theta, -2.0 * pair / static_cast<double>(recipe.dim));
}

// The angles of a text of `length` at a position are position · frequency(pair).
template <typename Frequency>
void ExpectFrequencies(const RopeRecipe& recipe, int64_t length, Frequency frequency,
                       double amplitude = 1) {
  const Rope rope(recipe);
  for (const int64_t position : {int64_t{0}, int64_t{1}, length / 2, length - 1}) {
    const Rope::Angles angles = rope.At(position, length);
    ASSERT_EQ(angles.cosines.size(), static_cast<size_t>(recipe.dim / 2));
    for (int pair = 0; pair < static_cast<int>(angles.cosines.size()); ++pair) {
      const double angle = static_cast<double>(position) * frequency(pair);
      // f32 angles: a few units of the last place of the angle.
      const double tolerance = 4e-7 * (1 + angle);
      const auto at = static_cast<size_t>(pair);
      EXPECT_NEAR(angles.cosines[at], amplitude * std::cos(angle), tolerance) << pair;
      EXPECT_NEAR(angles.sines[at], amplitude * std::sin(angle), tolerance) << pair;
    }
  }
}

TEST(RopeTest, WithoutScaling) {
  const RopeRecipe recipe = Recipe(Scaling::kNone);
  ExpectFrequencies(recipe, 100, [&](int pair) { return Plain(recipe, 500, pair); });
}

TEST(RopeTest, LinearDividesEveryFrequency) {
  const RopeRecipe recipe = Recipe(Scaling::kLinear);
  ExpectFrequencies(recipe, 100, [&](int pair) { return Plain(recipe, 500, pair) / 4; });
}

TEST(RopeTest, DynamicGrowsThetaBeyondTheTrainedLength) {
  const RopeRecipe recipe = Recipe(Scaling::kDynamic);
  ExpectFrequencies(recipe, 64, [&](int pair) { return Plain(recipe, 500, pair); });
  // growth = factor · length / trained - (factor - 1); theta · growth^(dim / (dim - 2))
  const double theta = 500 * std::pow(4 * 100.0 / 64 - 3, 12.0 / 10);
  ExpectFrequencies(recipe, 100, [&](int pair) { return Plain(recipe, theta, pair); });
}

TEST(RopeTest, ATokenBehindTheKnownLengthIsRotatedForItsOwn) {
  const Rope rope(Recipe(Scaling::kDynamic));
  EXPECT_EQ(rope.At(90, 10).cosines, rope.At(90, 91).cosines);
  EXPECT_NE(rope.At(10, 10).cosines, rope.At(10, 91).cosines);
}

TEST(RopeTest, YarnKeepsFastPairsDividesSlowOnesAndRampsBetween) {
  for (const bool truncates : {true, false}) {
    RopeRecipe recipe = Recipe(Scaling::kYarn);
    recipe.beta_fast = 4;
    recipe.beta_slow = 1;
    recipe.truncates = truncates;
    recipe.amplitude = 1.25f;
    const auto pair_of = [&](double rotations) {
      return 12 * std::log(64 / (rotations * 2 * std::numbers::pi)) / (2 * std::log(500.0));
    };
    const double low = std::max(truncates ? std::floor(pair_of(4)) : pair_of(4), 0.0);
    const double high = std::min(truncates ? std::ceil(pair_of(1)) : pair_of(1), 11.0);
    ExpectFrequencies(
        recipe, 100,
        [&](int pair) {
          const double ramp = std::clamp((pair - low) / (high - low), 0.0, 1.0);
          return Plain(recipe, 500, pair) * (ramp / 4 + 1 - ramp);
        },
        1.25);
  }
}

TEST(RopeTest, Llama3KeepsShortWavesDividesLongOnesAndBlendsBetween) {
  RopeRecipe recipe = Recipe(Scaling::kLlama3);
  recipe.low_frequency_factor = 1;
  recipe.high_frequency_factor = 4;
  ExpectFrequencies(recipe, 100, [&](int pair) {
    const double frequency = Plain(recipe, 500, pair);
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength > 64.0 / 1) return frequency / 4;
    if (wavelength < 64.0 / 4) return frequency;
    const double smooth = (64 / wavelength - 1) / 3;
    return (1 - smooth) * frequency / 4 + smooth * frequency;
  });
}

TEST(RopeTest, LongRopeHasDivisorsAndAmplitudesForShortAndLongTexts) {
  RopeRecipe recipe = Recipe(Scaling::kLongRope);
  recipe.short_factors = {1, 1.1f, 1.2f, 1.3f, 1.4f, 1.5f};
  recipe.long_factors = {2, 3, 4, 5, 6, 7};
  recipe.amplitude = 1.1f;
  recipe.long_amplitude = 1.5f;
  const auto of = [&](const std::vector<float>& factors) {
    return [&](int pair) {
      return Plain(recipe, 500, pair) / static_cast<double>(factors[static_cast<size_t>(pair)]);
    };
  };
  ExpectFrequencies(recipe, 64, of(recipe.short_factors), 1.1);
  ExpectFrequencies(recipe, 65, of(recipe.long_factors), 1.5);
}

TEST(RopeTest, OnlyTheFirstElementsOfAHeadTurn) {
  for (const bool is_interleaved : {false, true}) {
    RopeRecipe recipe;
    recipe.dim = 4;
    recipe.is_interleaved = is_interleaved;
    const Rope rope(recipe);
    std::vector<float> heads = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    rope.Rotate(rope.At(3), 2, 6, heads.data());
    for (const size_t untouched : {4u, 5u, 10u, 11u}) {
      EXPECT_EQ(heads[untouched], static_cast<float>(untouched + 1));
    }
    // Pair 0 is elements 0 and 2, or 0 and 1.
    const double other = is_interleaved ? 2 : 3;
    EXPECT_NEAR(heads[0], std::cos(3.0) - other * std::sin(3.0), 1e-6);
  }
}

}  // namespace
}  // namespace opst
