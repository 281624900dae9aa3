// Tests of the blockwise softmax pieces: maximum, exponentials, and that NaN is brought back.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax.h"

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

// How far ExpInPlace may be from e^-distance: the distance is rounded first, which moves the result
// by as many half ulp; exp itself is within 4 ulp; below the normal range one step of the grid.
double ExpError(double distance) {
  return (4 + distance) * 0x1p-23 * std::exp(-distance) + 0x1p-149;
}

class BlockSoftmaxTest : public EachIsaTest {};

TEST_P(BlockSoftmaxTest, MaximumOfAllLengths) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  EXPECT_EQ(MaxOf(nullptr, 0), -kInfinity);
  for (size_t n = 1; n <= 70; ++n) {
    std::vector<float> x(n + 1);
    for (float& value : x) value = normal(random) - 10;
    x[n] = 100;  // one past the end
    EXPECT_EQ(MaxOf(x.data(), n), *std::max_element(x.begin(), x.end() - 1)) << n;
  }
}

TEST_P(BlockSoftmaxTest, ExponentialsAndTheirSumEqualFp64) {
  std::mt19937 random(2);
  for (size_t n = 0; n <= 70; ++n) {
    std::vector<float> x(n + 1);
    for (float& value : x) value = -static_cast<float>(random() % 100'000) * 1e-3f;
    const std::vector<float> before = x;
    const float sum = ExpInPlace(x.data(), n, 0.5f);
    double wanted_sum = 0;
    double sum_error = 0;
    for (size_t i = 0; i < n; ++i) {
      const double distance = 0.5 - before[i];
      const double wanted = std::exp(-distance);
      wanted_sum += wanted;
      sum_error += ExpError(distance);
      ASSERT_NEAR(x[i], wanted, ExpError(distance)) << before[i];
    }
    EXPECT_EQ(x[n], before[n]) << "written behind the end";
    // n additions of positive terms, each rounded once.
    sum_error += static_cast<double>(n) * 0x1p-24 * wanted_sum;
    EXPECT_NEAR(sum, wanted_sum, sum_error);
  }
}

TEST_P(BlockSoftmaxTest, MaskedInputsGiveZero) {
  std::vector<float> x = {0, -kInfinity, -1000, -3e38f, -1};
  const float sum = ExpInPlace(x.data(), x.size(), 0);
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(x[1], 0);
  EXPECT_EQ(x[2], 0);
  EXPECT_EQ(x[3], 0);
  // One addition that rounds: the zeros change nothing.
  const double wanted = 1 + std::exp(-1.0);
  EXPECT_NEAR(sum, wanted, ExpError(1) + 0x1p-24 * wanted);
}

// In every lane, whole vectors and tails.
TEST_P(BlockSoftmaxTest, NanIsNeverTurnedIntoANumber) {
  for (size_t n = 1; n <= 40; ++n) {
    for (size_t broken = 0; broken < n; ++broken) {
      std::vector<float> x(n, -1.0f);
      x[broken] = kNan;
      const float sum = ExpInPlace(x.data(), n, 0);
      ASSERT_TRUE(std::isnan(sum)) << n << " " << broken;
      ASSERT_TRUE(std::isnan(x[broken]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, BlockSoftmaxTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
