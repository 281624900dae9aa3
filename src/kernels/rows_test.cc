// Tests of scaled accumulation and of the gated activation of a tile.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rows.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/testing/each_isa.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance of two neighbouring floats at |value|, at least that of the smallest normal ones.
double Ulp(double value) {
  const auto magnitude =
      std::max(static_cast<float>(std::abs(value)), std::numeric_limits<float>::min());
  return static_cast<double>(std::nextafter(magnitude, kInfinity)) - static_cast<double>(magnitude);
}

class RowsTest : public EachIsaTest {
 protected:
  // act(gate) for any number of values, through whole panels.
  static std::vector<float> Activate(Activation activation, std::vector<float> gates) {
    const size_t count = gates.size();
    gates.resize((count + 7) / 8 * 8);
    std::vector<float> tile;
    for (size_t panel = 0; panel < gates.size() / 8; ++panel) {
      const auto begin = gates.begin() + static_cast<std::ptrdiff_t>(8 * panel);
      tile.insert(tile.end(), begin, begin + 8);
      tile.insert(tile.end(), 8, 1.0f);
    }
    std::vector<float> out(gates.size());
    GatedActivation(activation, {}, tile.data(), gates.size() / 8, out.data());
    out.resize(count);
    return out;
  }
};

// Every element by the same operation, whether it stands in a whole vector or in the tail.
TEST_P(RowsTest, ScaledAccumulateGivesTheSameBitsAtEveryPosition) {
  constexpr size_t kLength = 70;
  const float weight = 0.3f;
  for (size_t n = 0; n <= kLength; ++n) {
    std::vector<float> x(kLength, 1.0f / 3);
    std::vector<float> y(kLength, 0.7f);
    ScaledAccumulate(weight, x.data(), n, y.data());
    const float fused = std::fma(weight, x[0], 0.7f);
    const float rounded_twice = weight * x[0] + 0.7f;
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(y[i], y[0]);
      ASSERT_EQ(y[i], GetParam() == "sse2" ? rounded_twice : fused) << n << " at " << i;
    }
    for (size_t i = n; i < kLength; ++i) ASSERT_EQ(y[i], 0.7f) << n << " at " << i;
  }
}

TEST_P(RowsTest, ScaledAccumulateKeepsNanAndInfinityInTheirColumn) {
  std::vector<float> x = {1, kNan, kInfinity, -2, 0.5f};
  std::vector<float> y(5, 1.0f);
  ScaledAccumulate(2.0f, x.data(), 5, y.data());
  EXPECT_EQ(y[0], 3.0f);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], kInfinity);
  EXPECT_EQ(y[3], -3.0f);
  EXPECT_EQ(y[4], 2.0f);
}

TEST_P(RowsTest, GatedActivationPairsGatesWithUpsAndWritesNothingElse) {
  for (size_t num_panels = 0; num_panels <= 5; ++num_panels) {
    std::vector<float> tile(16 * num_panels);
    for (size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<float>(i + 1);
    std::vector<float> out(8 * num_panels + 8, -7.0f);
    GatedActivation(Activation::kRelu, {}, tile.data(), num_panels, out.data());
    for (size_t i = 0; i < 8 * num_panels; ++i) {
      const size_t gate = 16 * (i / 8) + i % 8;
      EXPECT_EQ(out[i], tile[gate] * tile[gate + 8]);
    }
    for (size_t i = 8 * num_panels; i < out.size(); ++i) EXPECT_EQ(out[i], -7.0f);
  }
}

// Gate 1 and up 2 give 1.462117 as SwiGLU and 2.537387 as gpt-oss has it.
TEST_P(RowsTest, ClampedSwigluIsAnActivationOfItsOwn) {
  std::vector<float> tile(16, 0.0f);
  const auto of = [&](Activation activation, float gate, float up) {
    tile[0] = gate;
    tile[8] = up;
    std::vector<float> out(8);
    GatedActivation(activation, {}, tile.data(), 1, out.data());
    return out[0];
  };
  EXPECT_NEAR(of(Activation::kSilu, 1, 2), 1.462117f, 1e-6f);
  EXPECT_NEAR(of(Activation::kClampedSwiglu, 1, 2), 2.537387f, 1e-6f);
  // The gate is clamped from above only, up on both sides.
  EXPECT_EQ(of(Activation::kClampedSwiglu, 9, 2), of(Activation::kClampedSwiglu, 7, 2));
  EXPECT_NE(of(Activation::kClampedSwiglu, -9, 2), of(Activation::kClampedSwiglu, -7, 2));
  EXPECT_EQ(of(Activation::kClampedSwiglu, 1, 9), of(Activation::kClampedSwiglu, 1, 7));
  EXPECT_EQ(of(Activation::kClampedSwiglu, 1, -9), of(Activation::kClampedSwiglu, 1, -7));
  EXPECT_TRUE(std::isnan(of(Activation::kClampedSwiglu, kNan, 2)));
  EXPECT_TRUE(std::isnan(of(Activation::kClampedSwiglu, 1, kNan)));
}

TEST_P(RowsTest, SiluIsWithinFourUlp) {
  std::vector<float> gates;
  for (int i = -88'000; i <= 100'000; i += 7) gates.push_back(static_cast<float>(i) * 1e-3f);
  for (int e = -149; e < 0; ++e)
    gates.insert(gates.end(), {std::ldexp(1.0f, e), -std::ldexp(1.3f, e)});
  const std::vector<float> out = Activate(Activation::kSilu, gates);
  for (size_t i = 0; i < gates.size(); ++i) {
    const double x = gates[i];
    const double wanted = x / (1 + std::exp(-x));
    ASSERT_LE(std::abs(out[i] - wanted), 4 * Ulp(wanted)) << "silu(" << x << ") = " << out[i];
  }
}

TEST_P(RowsTest, GeluKeepsItsDigitsAtNegativeInputs) {
  std::vector<float> gates;
  for (int i = -10'000; i <= 12'000; ++i) gates.push_back(static_cast<float>(i) * 1e-3f);
  for (int e = -149; e < 0; ++e)
    gates.insert(gates.end(), {std::ldexp(1.0f, e), -std::ldexp(1.3f, e)});
  const std::vector<float> out = Activate(Activation::kGeluTanh, gates);
  for (size_t i = 0; i < gates.size(); ++i) {
    const double x = gates[i];
    const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    const double wanted = x / (1 + std::exp(-2 * u));
    ASSERT_LE(std::abs(out[i] - wanted), (4 + 6 * std::abs(u)) * Ulp(wanted))
        << "gelu(" << x << ") = " << out[i] << " instead of " << wanted;
  }
}

TEST_P(RowsTest, ErfAndQuickGeluKeepTheirDigitsAtNegativeInputs) {
  std::vector<float> gates;
  for (int i = -13'000; i <= 14'000; ++i) gates.push_back(static_cast<float>(i) * 1e-3f);
  for (int e = -149; e < 0; ++e)
    gates.insert(gates.end(), {std::ldexp(1.0f, e), -std::ldexp(1.3f, e)});
  const std::vector<float> gelu = Activate(Activation::kGelu, gates);
  const std::vector<float> quick = Activate(Activation::kQuickGelu, gates);
  for (size_t i = 0; i < gates.size(); ++i) {
    const double x = gates[i];
    const double wanted = x / 2 * std::erfc(-x / std::sqrt(2.0));
    ASSERT_LE(std::abs(gelu[i] - wanted), (8 + x * x) * Ulp(wanted) + 0x1p-120)
        << "gelu(" << x << ") = " << gelu[i] << " instead of " << wanted;
    const double quick_wanted = x / (1 + std::exp(-1.702 * x));
    ASSERT_LE(std::abs(quick[i] - quick_wanted), (4 + 2 * std::abs(x)) * Ulp(quick_wanted))
        << "quick_gelu(" << x << ") = " << quick[i] << " instead of " << quick_wanted;
  }
}

TEST_P(RowsTest, ElementsHaveTheBitsOfGatesWithAnUpOfOne) {
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kRelu,
                                      Activation::kGelu, Activation::kQuickGelu}) {
    for (size_t n = 0; n < 40; ++n) {
      std::vector<float> x(n + 8, 3.0f);
      for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i) * 0.37f - 5;
      const std::vector<float> wanted =
          Activate(activation, {x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n)});
      ElementActivation(activation, x.data(), n);
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(x[i], wanted[i]) << n << " at " << i;
      for (size_t i = n; i < x.size(); ++i) ASSERT_EQ(x[i], 3.0f);
    }
  }
}

TEST_P(RowsTest, ActivationsOfExtremeInputs) {
  const std::vector<float> gates = {1e30f,  -1e30f,  3e38f, -3e38f, kInfinity, kNan,
                                    200.0f, -200.0f, 0.0f,  -89.0f, 1e-40f,    -1e-40f};
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kRelu,
                                      Activation::kGelu, Activation::kQuickGelu}) {
    const std::vector<float> out = Activate(activation, gates);
    for (size_t i = 0; i < gates.size(); ++i) {
      if (std::isnan(gates[i])) {
        EXPECT_TRUE(std::isnan(out[i]));
      } else if (gates[i] >= 100) {
        EXPECT_EQ(out[i], gates[i]);
      } else if (gates[i] <= -80) {
        EXPECT_LE(std::abs(out[i]), 0x1p-120f) << gates[i];
      } else {
        EXPECT_LE(std::abs(out[i]), std::abs(gates[i]));
      }
    }
  }
}

// A NaN or infinity of one column must not reach its neighbours in the vector.
TEST_P(RowsTest, ActivationsOfNeighboursAreUntouched) {
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kRelu,
                                      Activation::kGelu, Activation::kQuickGelu}) {
    std::vector<float> gates = {0.5f, -0.5f, 1, 2, 3, -4, 5, 6};
    const std::vector<float> clean = Activate(activation, gates);
    for (const float poison : {kNan, kInfinity, -kInfinity}) {
      gates[3] = poison;
      std::vector<float> out = Activate(activation, gates);
      out[3] = clean[3];
      EXPECT_EQ(out, clean);
    }
  }
}

TEST_P(RowsTest, ReluKeepsNanAndZeroesNegatives) {
  const std::vector<float> out =
      Activate(Activation::kRelu, {kNan, -1, -kInfinity, kInfinity, 2, 0, -1e-45f, 1e-45f});
  EXPECT_TRUE(std::isnan(out[0]));
  const std::vector<float> wanted = {0, 0, kInfinity, 2, 0, 0, 1e-45f};
  EXPECT_EQ(std::vector<float>(out.begin() + 1, out.end()), wanted);
}

INSTANTIATE_TEST_SUITE_P(Isa, RowsTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
