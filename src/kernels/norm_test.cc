// Tests of the decoder's row kernels: norms, rotations, addition, clamping.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/testing/each_isa.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kUnit = 0x1p-24;

std::vector<float> RandomRow(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.1f, 2.0f);
  std::vector<float> row(n);
  for (float& value : row) value = normal(random);
  return row;
}

class NormTest : public EachIsaTest {};

TEST_P(NormTest, RmsNormEqualsFp64ForAllLengths) {
  for (size_t n = 1; n <= 130; ++n) {
    const std::vector<float> x = RandomRow(n, static_cast<uint32_t>(n));
    const std::vector<float> weight = RandomRow(n, static_cast<uint32_t>(n + 1000));
    double sum = 0;
    for (const float value : x) sum += static_cast<double>(value) * value;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + 1e-6);
    std::vector<float> out(n + 1, -3.0f);
    RmsNorm(x.data(), weight.data(), n, 1e-6f, out.data());
    for (size_t i = 0; i < n; ++i) {
      const double wanted = weight[i] * (x[i] * scale);
      // The sum of squares is off by n units at most, its root by half of that.
      const double tolerance = (static_cast<double>(n) / 2 + 6) * kUnit * std::abs(wanted);
      ASSERT_NEAR(out[i], wanted, tolerance) << n << " at " << i;
    }
    EXPECT_EQ(out[n], -3.0f);
  }
}

TEST_P(NormTest, RmsNormWorksInPlaceAndOnZeros) {
  std::vector<float> x = RandomRow(37, 1);
  const std::vector<float> weight = RandomRow(37, 2);
  std::vector<float> out(37);
  RmsNorm(x.data(), weight.data(), 37, 1e-5f, out.data());
  RmsNorm(x.data(), weight.data(), 37, 1e-5f, x.data());
  EXPECT_EQ(x, out);
  std::vector<float> zeros(37, 0.0f);
  RmsNorm(zeros.data(), weight.data(), 37, 1e-5f, zeros.data());
  for (const float value : zeros) EXPECT_EQ(value, 0.0f);
}

TEST_P(NormTest, LayerNormEqualsFp64ForAllLengths) {
  for (size_t n = 1; n <= 130; ++n) {
    const std::vector<float> x = RandomRow(n, static_cast<uint32_t>(n));
    const std::vector<float> weight = RandomRow(n, static_cast<uint32_t>(n + 1000));
    const std::vector<float> bias = RandomRow(n, static_cast<uint32_t>(n + 2000));
    const auto count = static_cast<double>(n);
    double mean = 0;
    double largest = 0;
    for (const float value : x) {
      mean += value / count;
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    double variance = 0;
    for (const float value : x) variance += (value - mean) * (value - mean) / count;
    const double scale = 1 / std::sqrt(variance + 1e-3);
    std::vector<float> out(n + 1, -3.0f);
    LayerNorm(x.data(), weight.data(), bias.data(), n, 1e-3f, out.data());
    for (size_t i = 0; i < n; ++i) {
      const double value = (x[i] - mean) * scale;
      const double wanted = value * weight[i] + bias[i];
      // The mean is off by n units of the largest value, which the scale then magnifies; the
      // deviation by n / 2 units, and by what the mean's error adds.
      const double mean_error = (count + 2) * kUnit * largest * scale;
      const double tolerance =
          std::abs(weight[i]) * (2 * mean_error + (count / 2 + 6) * kUnit * std::abs(value)) +
          2 * kUnit * (std::abs(wanted) + std::abs(bias[i]));
      ASSERT_NEAR(out[i], wanted, tolerance) << n << " at " << i;
    }
    EXPECT_EQ(out[n], -3.0f);
  }
}

TEST_P(NormTest, NeighboursTurnAsHalvesDo) {
  for (size_t half = 1; half <= 20; ++half) {
    const std::vector<float> cosines = RandomRow(half, 3);
    const std::vector<float> sines = RandomRow(half, 4);
    std::vector<float> halves = RandomRow(2 * half, static_cast<uint32_t>(half));
    std::vector<float> pairs(2 * half);
    for (size_t i = 0; i < half; ++i) {
      pairs[2 * i] = halves[i];
      pairs[2 * i + 1] = halves[i + half];
    }
    RotateHalves(halves.data(), half, cosines.data(), sines.data());
    RotatePairs(pairs.data(), half, cosines.data(), sines.data());
    for (size_t i = 0; i < half; ++i) {
      EXPECT_EQ(pairs[2 * i], halves[i]);
      EXPECT_EQ(pairs[2 * i + 1], halves[i + half]);
    }
  }
}

TEST_P(NormTest, RotationTurnsPairsByTheirAngles) {
  for (size_t half = 1; half <= 40; ++half) {
    const std::vector<float> source = RandomRow(2 * half, static_cast<uint32_t>(half));
    std::vector<float> cosines(half);
    std::vector<float> sines(half);
    for (size_t i = 0; i < half; ++i) {
      cosines[i] = std::cos(static_cast<float>(i) + 0.5f);
      sines[i] = std::sin(static_cast<float>(i) + 0.5f);
    }
    std::vector<float> x = source;
    x.push_back(-3.0f);
    RotateHalves(x.data(), half, cosines.data(), sines.data());
    for (size_t i = 0; i < half; ++i) {
      const double a = source[i];
      const double b = source[i + half];
      const double bound = 4 * kUnit * (std::abs(a) + std::abs(b));
      ASSERT_NEAR(x[i], a * cosines[i] - b * sines[i], bound);
      ASSERT_NEAR(x[i + half], b * cosines[i] + a * sines[i], bound);
    }
    EXPECT_EQ(x[2 * half], -3.0f);
  }
}

TEST_P(NormTest, AddToAddsEveryElementOnce) {
  for (size_t n = 0; n <= 70; ++n) {
    const std::vector<float> x = RandomRow(n + 1, static_cast<uint32_t>(n));
    std::vector<float> y = RandomRow(n + 1, static_cast<uint32_t>(n + 1));
    const std::vector<float> before = y;
    AddTo(x.data(), n, y.data());
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], before[i] + x[i]);
    EXPECT_EQ(y[n], before[n]);
  }
}

TEST_P(NormTest, ClampKeepsNanAndCutsTheRest) {
  std::vector<float> x = {kNan, kInfinity, -kInfinity, 8.5f, -8.5f, 8, -8, 0.25f, -0.0f};
  Clamp(x.data(), x.size(), 8);
  EXPECT_TRUE(std::isnan(x[0]));
  x[0] = 0;
  EXPECT_EQ(x, (std::vector<float>{0, 8, -8, 8, -8, 8, -8, 0.25f, -0.0f}));
  EXPECT_TRUE(std::signbit(x[8]));
}

INSTANTIATE_TEST_SUITE_P(Isa, NormTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
