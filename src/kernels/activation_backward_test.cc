// Tests of the activations' gradients against fp64, and of the fp64 ones against differences.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/testing/each_isa.h"

namespace opst {
namespace {

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh,
                                       Activation::kRelu, Activation::kClampedSwiglu,
                                       Activation::kGelu, Activation::kQuickGelu};
constexpr ActivationLimits kLimits{1.702f, 2.0f};

struct Gradient {
  double h, d_gate, d_up;
};

double Value(Activation activation, double gate, double up) {
  switch (activation) {
    case Activation::kSilu:
      return gate / (1 + std::exp(-gate)) * up;
    case Activation::kGeluTanh:
      return gate / 2 *
             (1 + std::tanh(std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate))) * up;
    case Activation::kRelu:
      return std::max(gate, 0.0) * up;
    case Activation::kGelu:
      return gate / 2 * std::erfc(-gate / std::sqrt(2.0)) * up;
    case Activation::kQuickGelu:
      return gate / (1 + std::exp(-1.702 * gate)) * up;
    case Activation::kClampedSwiglu:
      break;
  }
  const double g = std::min<double>(gate, kLimits.limit);
  const double u = std::clamp<double>(up, -kLimits.limit, kLimits.limit);
  return g / (1 + std::exp(-static_cast<double>(kLimits.alpha) * g)) * (u + 1);
}

// Central differences of fp64 with a step of 1e-5: exact to 1e-9 or so.
Gradient Differences(Activation activation, double gate, double up) {
  constexpr double kStep = 1e-5;
  return {
      Value(activation, gate, up),
      (Value(activation, gate + kStep, up) - Value(activation, gate - kStep, up)) / (2 * kStep),
      (Value(activation, gate, up + kStep) - Value(activation, gate, up - kStep)) / (2 * kStep)};
}

class ActivationBackwardTest : public EachIsaTest {};

// A sigmoid of 4 ulp, a dozen operations after it, and differences of 1e-9.
TEST_P(ActivationBackwardTest, GradientsAreTheSlopesOfTheFunction) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-6, 6);
  for (const Activation activation : kActivations) {
    for (size_t n = 0; n <= 70; ++n) {
      std::vector<float> gate(n), up(n), d_h(n), d_gate(n + 1, 7), d_up(n + 1, 7), h(n + 1, 7);
      for (size_t i = 0; i < n; ++i) {
        gate[i] = uniform(random);
        up[i] = uniform(random);
        d_h[i] = uniform(random);
      }
      ActivationBackward(
          activation, kLimits, n,
          {gate.data(), up.data(), d_h.data(), d_gate.data(), d_up.data(), h.data()});
      for (size_t i = 0; i < n; ++i) {
        const Gradient wanted = Differences(activation, gate[i], up[i]);
        const double size = (1 + std::abs(gate[i])) * (1 + std::abs(up[i]));
        const double tolerance = 32 * 0x1p-24 * size + 1e-8;
        ASSERT_NEAR(h[i], wanted.h, tolerance) << static_cast<int>(activation) << " " << gate[i];
        ASSERT_NEAR(d_gate[i], d_h[i] * wanted.d_gate, 6 * tolerance) << gate[i] << " " << up[i];
        ASSERT_NEAR(d_up[i], d_h[i] * wanted.d_up, 6 * tolerance) << gate[i] << " " << up[i];
      }
      ASSERT_TRUE(d_gate[n] == 7 && d_up[n] == 7 && h[n] == 7);
    }
  }
}

TEST_P(ActivationBackwardTest, ExtremesGiveTheirLimitsAndNanStays) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kRelu,
                                      Activation::kGelu, Activation::kQuickGelu}) {
    std::vector<float> gate = {1e30f, -1e30f, 300, -300, nan, -inf};
    std::vector<float> up(6, 2), d_h(6, 1), d_gate(6), d_up(6), h(6);
    ActivationBackward(activation, kLimits, 6,
                       {gate.data(), up.data(), d_h.data(), d_gate.data(), d_up.data(), h.data()});
    EXPECT_EQ(d_gate[0], 2);
    EXPECT_EQ(d_gate[1], 0);
    EXPECT_EQ(d_gate[2], 2);
    EXPECT_EQ(d_gate[3], 0);
    EXPECT_TRUE(std::isnan(d_gate[4]) && std::isnan(d_up[4]) && std::isnan(h[4]));
    EXPECT_EQ(d_up[0], 1e30f);
  }
}

// PyTorch's choices: relu'(0) = 0, clamp passes the gradient on at the limit itself.
TEST_P(ActivationBackwardTest, EdgesAreThoseOfPyTorch) {
  std::vector<float> gate = {0, 0}, up = {3, 3}, d_h = {1, 1}, d_gate(2), d_up(2), h(2);
  ActivationBackward(Activation::kRelu, kLimits, 2,
                     {gate.data(), up.data(), d_h.data(), d_gate.data(), d_up.data(), h.data()});
  EXPECT_EQ(d_gate[0], 0);
  gate = {2, 2.5f};
  up = {2, -2.5f};
  ActivationBackward(Activation::kClampedSwiglu, kLimits, 2,
                     {gate.data(), up.data(), d_h.data(), d_gate.data(), d_up.data(), h.data()});
  EXPECT_GT(d_gate[0], 0);
  EXPECT_GT(d_up[0], 0);
  EXPECT_EQ(d_gate[1], 0);
  EXPECT_EQ(d_up[1], 0);
}

// Outputs over inputs, as the backward pass of the layer does it.
TEST_P(ActivationBackwardTest, InPlaceGivesTheSameBits) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const Activation activation : kActivations) {
    std::vector<float> gate(37), up(37), d_h(37), d_gate(37), d_up(37), h(37);
    for (size_t i = 0; i < 37; ++i) {
      gate[i] = normal(random);
      up[i] = normal(random);
      d_h[i] = normal(random);
    }
    ActivationBackward(activation, kLimits, 37,
                       {gate.data(), up.data(), d_h.data(), d_gate.data(), d_up.data(), h.data()});
    ActivationBackward(activation, kLimits, 37,
                       {gate.data(), up.data(), d_h.data(), gate.data(), up.data(), d_h.data()});
    EXPECT_EQ(gate, d_gate);
    EXPECT_EQ(up, d_up);
    EXPECT_EQ(d_h, h);
  }
}

// A factor of 1 is exact: without a gate the bits are those of a gated row with ups of 1.
TEST_P(ActivationBackwardTest, WithoutAGateTheFactorIsOne) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  for (const Activation activation : kActivations) {
    if (activation == Activation::kClampedSwiglu) continue;
    std::vector<float> x(37), ones(37, 1), d_h(37), d_x(37), d_up(37), h(37);
    std::vector<float> plain_d_x(37), plain_h(37);
    for (size_t i = 0; i < 37; ++i) {
      x[i] = normal(random);
      d_h[i] = normal(random);
    }
    ActivationBackward(activation, kLimits, 37,
                       {x.data(), ones.data(), d_h.data(), d_x.data(), d_up.data(), h.data()});
    ActivationBackward(activation, kLimits, 37,
                       {x.data(), nullptr, d_h.data(), plain_d_x.data(), nullptr, plain_h.data()});
    EXPECT_EQ(plain_d_x, d_x);
    EXPECT_EQ(plain_h, h);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, ActivationBackwardTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
