// Tests of the router's losses: published values, exact balance, padding, sequences, and what is
// refused.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"
#include "opst/ops/gating.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ConstTensorView View(const std::vector<float>& values, int64_t width) {
  return {values.data(), Shape{static_cast<int64_t>(values.size()) / width, width}};
}
ConstTensorView Ids(const std::vector<int32_t>& ids, int64_t width) {
  return {ids.data(), Shape{static_cast<int64_t>(ids.size()) / width, width}};
}

class RouterLossTest : public testing::TestWithParam<const char*> {
 protected:
  const Context context_ = MakeContext(2, {{"implementation", GetParam()}, {"log", "error"}});
};

INSTANTIATE_TEST_SUITE_P(Implementations, RouterLossTest, testing::Values("auto", "reference"),
                         [](const auto& test) { return std::string(test.param); });

// Values that flaxformer and transformers agree on, for Switch Transformers.
TEST_P(RouterLossTest, BalanceLossOfSwitch) {
  const std::vector<float> p = {0.35490513f, 0.60419905f, 0.4275843f,  0.23061597f, 0.32985854f,
                                0.43953657f, 0.25099766f, 0.27730572f, 0.7678207f,  0.71474564f};
  const std::vector<int32_t> ids = {0, 1, 1, 0, 0};
  const double loss = BalanceLoss(context_, View(p, 2), Ids(ids, 1),
                                  {.coefficient = 1, .values = RouterValues::kProbabilities});
  EXPECT_NEAR(loss, 0.8741045, 5e-7);
}

TEST_P(RouterLossTest, ZLossOfSwitch) {
  const std::vector<float> logits = {
      -4.2124424f,  3.891939f,   -3.6481273f,  1.8849981f,   0.32625437f, 2.918651f,   0.84758997f,
      -4.556842f,   -3.32062f,   4.6977115f,   -0.15439987f, 0.44086337f, 3.4467149f,  4.3436565f,
      -4.7224274f,  -4.264637f,  -2.224406f,   -2.5318158f,  -1.3832569f, 1.1891162f,  -2.320062f,
      -0.44705987f, 4.289819f,   -0.00662684f, 0.99470854f,  -0.6992364f, 0.25503993f, 4.2952085f,
      3.5937333f,   -3.2408535f, -4.298278f,   4.426601f,    0.7669008f,  2.6588762f,  2.4505413f,
      4.6051874f,   0.23330331f, -3.0845237f,  0.6262374f,   -2.9865491f, 0.7595146f,  -2.1099675f,
      -4.155346f,   -2.8326452f, 2.3771453f,   1.004138f,    -3.1781673f, 0.7581556f};
  EXPECT_NEAR(RouterZLoss(context_, View(logits, 4), {.coefficient = 1}), 13.786719, 2e-6);
}

// Tokens [6,4] through a classifier [4,2]; top-1.
TEST_P(RouterLossTest, BothLossesOfARouterOfSwitch) {
  const std::vector<double> tokens = {0.6433916,  0.18188512, 0.02240455, 0.563781,   0.5526401,
                                      0.0958724,  0.34253013, 0.03644359, 0.08744538, 0.7909105,
                                      0.35205448, 0.53364205, 0.02900076, 0.4168595,  0.5802449,
                                      0.91486526, 0.27414513, 0.14991808, 0.9383501,  0.5209162,
                                      0.51207185, 0.90618336, 0.7309413,  0.95533276};
  const std::vector<double> classifier = {0.02008116,  0.00620062, -0.00811031, -0.00031623,
                                          -0.03542127, 0.02703803, 0.02335377,  -0.02971946};
  std::vector<float> logits;
  for (size_t i = 0; i < 12; ++i) {
    double sum = 0;
    for (size_t h = 0; h < 4; ++h) sum += tokens[i / 2 * 4 + h] * classifier[h * 2 + i % 2];
    logits.push_back(static_cast<float>(sum));
  }
  EXPECT_NEAR(RouterZLoss(context_, View(logits, 2), {.coefficient = 1}), 0.4789799, 5e-7);
  const GatingResult gated = Gate(context_, View(logits, 2), {.top_k = 1});
  const double loss =
      BalanceLoss(context_, View(logits, 2), Ids(gated.expert_ids, 1), {.coefficient = 1});
  EXPECT_NEAR(loss, 1.000308, 2e-6);
}

// Token t takes experts t, t+1, … modulo E, each with the same logit.
TEST_P(RouterLossTest, BalancedRoutingCostsExactlyTheCoefficientForAnyK) {
  constexpr int64_t kExperts = 8;
  for (int64_t top_k = 1; top_k <= kExperts; ++top_k) {
    std::vector<float> logits(24 * kExperts, 0.0f);
    std::vector<int32_t> ids;
    for (int64_t token = 0; token < 24; ++token) {
      for (int64_t j = 0; j < top_k; ++j) {
        ids.push_back(static_cast<int32_t>((token + j) % kExperts));
        logits[static_cast<size_t>(token * kExperts + ids.back())] = 3.0f;
      }
    }
    BalanceLossOptions options{.coefficient = 0.25f};
    const auto loss = [&] {
      return BalanceLoss(context_, View(logits, kExperts), Ids(ids, top_k), options);
    };
    EXPECT_NEAR(loss(), 0.25, 1e-7) << top_k;
    options.count = BalanceCount::kFirstChoice;
    EXPECT_NEAR(loss(), 0.25, 1e-7) << top_k;
    options.count = BalanceCount::kPerToken;
    EXPECT_NEAR(loss(), 0.25 * static_cast<double>(top_k), 1e-6) << top_k;
    options = {.coefficient = 0.25f, .values = RouterValues::kSigmoidLogits};
    EXPECT_NEAR(loss(), 0.25, 1e-7) << top_k;
    options = {.coefficient = 0.25f, .sequence_length = 8};
    EXPECT_NEAR(loss(), 0.25, 1e-7) << top_k;
  }
  const std::vector<float> even(40, 1.0f);
  EXPECT_NEAR(ImportanceLoss(context_, View(even, 4), {.coefficient = 1}), 0, 1e-14);
}

// Everything to one expert, undecided: f = (1, 0), P = (1/2, 1/2); p = (1, 0) instead doubles it.
TEST_P(RouterLossTest, SkewedRoutingCostsMore) {
  const std::vector<int32_t> ids = {0, 0};
  EXPECT_NEAR(
      BalanceLoss(context_, View(std::vector<float>(4), 2), Ids(ids, 1), {.coefficient = 1}), 1,
      1e-7);
  const std::vector<float> sure = {9, -kInfinity, kInfinity, 3};
  EXPECT_NEAR(BalanceLoss(context_, View(sure, 2), Ids(ids, 1), {.coefficient = 1}), 2, 1e-7);
  EXPECT_NEAR(ImportanceLoss(context_, View(sure, 2), {.coefficient = 1}), 1, 1e-7);
  EXPECT_EQ(RouterZLoss(context_, View(sure, 2)), kInfinity);
}

TEST_P(RouterLossTest, EverySequenceHasALossOfItsOwn) {
  const std::vector<float> logits = {2, 0, 1, 0, 0, 1, 0, 3, 5, 5};
  const std::vector<int32_t> ids = {0, 0, 1, 1, 0};
  const auto loss = [&](const std::vector<float>& values, const std::vector<int32_t>& chosen,
                        int64_t length) {
    return BalanceLoss(context_, View(values, 2), Ids(chosen, 1),
                       {.coefficient = 1, .sequence_length = length});
  };
  const double first = loss({2, 0, 1, 0}, {0, 0}, 0);
  const double second = loss({0, 1, 0, 3}, {1, 1}, 0);
  const double last = loss({5, 5}, {0}, 0);
  EXPECT_NEAR(loss(logits, ids, 2), (first + second + last) / 3, 1e-7);
  EXPECT_NEAR(loss(logits, ids, 5), loss(logits, ids, 0), 1e-15);
  EXPECT_NEAR(loss(logits, ids, 100), loss(logits, ids, 0), 1e-15);
}

TEST_P(RouterLossTest, PaddingAndUnusableRowsAreAsIfTheyWereNotThere) {
  const std::vector<float> logits = {2, 0, kNan, -kInfinity, 1, 0, 7, 7, 0, 1};
  const std::vector<int32_t> ids = {0, 1, 0, 1, 1};
  const std::vector<uint8_t> is_padding = {0, 0, 0, 1, 0};
  const std::vector<float> left = {2, 0, 1, 0, 0, 1};
  const std::vector<int32_t> left_ids = {0, 0, 1};
  EXPECT_NEAR(BalanceLoss(context_, View(logits, 2), Ids(ids, 1), {.is_padding = is_padding}),
              BalanceLoss(context_, View(left, 2), Ids(left_ids, 1)), 1e-12);
  EXPECT_NEAR(RouterZLoss(context_, View(logits, 2), {.is_padding = is_padding}),
              RouterZLoss(context_, View(left, 2)), 1e-12);
  EXPECT_NEAR(ImportanceLoss(context_, View(logits, 2), {.is_padding = is_padding}),
              ImportanceLoss(context_, View(left, 2)), 1e-12);
  // The second sequence has nothing left, so that it leaves the mean.
  const std::vector<uint8_t> second = {0, 0, 1, 1};
  EXPECT_NEAR(BalanceLoss(context_, View({2, 0, 1, 0, 9, 9, 9, 9}, 2), Ids({0, 0, 1, 1}, 1),
                          {.sequence_length = 2, .is_padding = second}),
              BalanceLoss(context_, View({2, 0, 1, 0}, 2), Ids({0, 0}, 1)), 1e-12);
}

TEST_P(RouterLossTest, EmptySlotsAreNoChoices) {
  const std::vector<float> logits = {2, 0, 1, 0, 0, 1};
  const double wide = BalanceLoss(context_, View(logits, 2), Ids({0, -1, 0, 1, 1, -1}, 2));
  // f = (2, 2) / 4 in both.
  EXPECT_NEAR(wide, BalanceLoss(context_, View(logits, 2), Ids({0, 1, 0, 1, 0, 1}, 2)), 1e-12);
  EXPECT_EQ(BalanceLoss(context_, View(logits, 2), Ids({-1, -1, -1}, 1)), 0);
}

TEST_P(RouterLossTest, NoTokensCostNothing) {
  const ConstTensorView none(static_cast<const float*>(nullptr), Shape{0, 4});
  const ConstTensorView no_ids(static_cast<const int32_t*>(nullptr), Shape{0, 2});
  EXPECT_EQ(BalanceLoss(context_, none, no_ids), 0);
  EXPECT_EQ(RouterZLoss(context_, none), 0);
  EXPECT_EQ(ImportanceLoss(context_, none), 0);
  const std::vector<float> unusable(8, kNan);
  EXPECT_EQ(RouterZLoss(context_, View(unusable, 4)), 0);
}

TEST(RouterLossErrorsTest, RefusesWhatDoesNotFit) {
  const Context context = MakeContext(1);
  const std::vector<float> logits(8);
  const std::vector<int32_t> ids = {0, 1, 2, 4};
  const auto balance = [&](ConstTensorView values, ConstTensorView chosen,
                           const BalanceLossOptions& options = {}) {
    return Rejection([&] { BalanceLoss(context, values, chosen, options); });
  };
  EXPECT_EQ(balance(View(logits, 4), Ids(ids, 2)),
            "[router_loss] expert ids must be -1 or 0..3; got invalid expert index 4 at [1,1]");
  EXPECT_EQ(balance(View(logits, 4), Ids(ids, 1)),
            "[router_loss] expert_ids must be [T,k] i32 of the values' tokens; got [4,1] i32 for "
            "values [2,4] f32");
  EXPECT_EQ(balance(ConstTensorView(logits.data(), Shape{8}), Ids(ids, 1)),
            "[router_loss] values must be [T,E] f32; got [8] f32");
  const std::vector<int32_t> good = {0, 1};
  EXPECT_EQ(balance(View(logits, 4), Ids(good, 1), {.coefficient = kInfinity}),
            "[router_loss] coefficient must be finite; got inf");
  EXPECT_EQ(balance(View(logits, 4), Ids(good, 1), {.sequence_length = -1}),
            "[router_loss] sequence_length must not be negative; got -1");
  const std::vector<uint8_t> flags(3);
  EXPECT_EQ(balance(View(logits, 4), Ids(good, 1), {.is_padding = flags}),
            "[router_loss] is_padding must have one value per token; got 3 for 2 tokens");
  std::vector<float> d(8);
  EXPECT_EQ(
      Rejection([&] {
        RouterZLossBackward(context, View(logits, 4), {}, 1, TensorView(d.data(), Shape{4, 2}));
      }),
      "[router_loss] the gradient must be [T,E] f32; got [4,2] f32 for values [2,4] f32");
  EXPECT_EQ(Rejection([&] {
              ImportanceLossBackward(context, View(d, 4), {}, 1, TensorView(d.data(), Shape{2, 4}));
            }),
            "[router_loss] the gradient must not overlap the inputs; got [2,4] f32");
}

}  // namespace
}  // namespace opst
