// Tests of the int8 kernels against scalar code, for all lengths and edge values.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/rows.h"
#include "kernels/testing/each_isa.h"

namespace opst {
namespace {

class QuantizeTest : public EachIsaTest {};

std::vector<float> RandomFloats(size_t n, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

TEST_P(QuantizeTest, LargestMagnitudeOfAllLengths) {
  for (size_t n = 0; n <= 70; ++n) {
    std::vector<float> x = RandomFloats(n, static_cast<uint32_t>(n), 3);
    float most = 0;
    for (const float value : x) most = std::max(most, std::abs(value));
    ASSERT_EQ(MaxAbs(x.data(), n), most);
    for (size_t at = 0; at < n; ++at) {
      std::vector<float> changed = x;
      changed[at] = -1e30f;
      ASSERT_EQ(MaxAbs(changed.data(), n), 1e30f);
      changed[at] = std::numeric_limits<float>::quiet_NaN();
      ASSERT_TRUE(std::isnan(MaxAbs(changed.data(), n))) << n << " at " << at;
    }
  }
}

TEST_P(QuantizeTest, RoundsToEvenSaturatesAndWritesNothingElse) {
  for (size_t n = 0; n <= 70; ++n) {
    const std::vector<float> x = RandomFloats(n, static_cast<uint32_t>(n), 90);
    std::vector<int8_t> q(n + 1, 77);
    ToInt8(x.data(), n, 1, 0, q.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(q[i], std::clamp(std::nearbyint(x[i]), -128.0f, 127.0f)) << x[i];
    }
    ASSERT_EQ(q[n], 77);
  }
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> edges = {0.5f, 1.5f, -2.5f, 126.5f, 127.5f, -128.5f, 1e38f, -inf, inf};
  std::vector<int8_t> q(edges.size());
  ToInt8(edges.data(), edges.size(), 1, 0, q.data());
  EXPECT_EQ(q, (std::vector<int8_t>{0, 2, -2, 126, 127, -128, 127, -128, 127}));
}

TEST_P(QuantizeTest, DotIsWithinItsBoundAndTheSameAtEveryAddress) {
  for (size_t n = 0; n <= 130; ++n) {
    std::vector<float> x = RandomFloats(n, static_cast<uint32_t>(n), 1);
    const std::vector<float> y = RandomFloats(n, static_cast<uint32_t>(n) + 1000, 1);
    double sum = 0;
    double magnitude = 0;
    for (size_t i = 0; i < n; ++i) {
      sum += static_cast<double>(x[i]) * y[i];
      magnitude += std::abs(static_cast<double>(x[i]) * y[i]);
    }
    const float got = Dot(x.data(), y.data(), n);
    ASSERT_LE(std::abs(got - sum), 1.001 * static_cast<double>(n + 1) * 0x1p-24 * magnitude);
    x.insert(x.begin(), 5.0f);
    ASSERT_EQ(Dot(x.data() + 1, y.data(), n), got);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, QuantizeTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
