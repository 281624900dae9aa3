// The made-up weights and logits, and the plain routing and loop on them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/layer_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/layer_check.h"
#include "bench/plain_loop.h"
#include "kernels/testing/each_isa.h"
#include "opst/dtype.h"
#include "opst/ops/gating.h"

namespace opst::bench {
namespace {

LayerShape TinyShape() {
  LayerShape shape;
  shape.name = "tiny";
  shape.hidden = 70;
  shape.ffn = 37;
  shape.num_experts = 6;
  shape.top_k = 2;
  return shape;
}

RoutingPlan RouteOurs(const Context& context, const LayerShape& shape,
                      const std::vector<float>& logits) {
  const auto num_tokens = static_cast<int64_t>(logits.size()) / shape.num_experts;
  return Route(context, ConstTensorView(logits.data(), Shape{num_tokens, shape.num_experts}),
               {.top_k = shape.top_k, .renormalizes = shape.renormalizes});
}

TEST(LayerInputsTest, WeightsAreExactInEveryFormat) {
  const LayerShape shape = TinyShape();
  std::vector<float> weights(static_cast<size_t>(shape.expert_elements()));
  FillExpert(shape, WeightFormat::kF32, 3, weights.data());
  double squares = 0;
  for (const float w : weights) {
    ASSERT_EQ(ToFloat(ToBf16(w)), w);
    ASSERT_EQ(ToFloat(ToF16(w)), w);
    squares += static_cast<double>(w) * static_cast<double>(w);
  }
  // Between 1/(2H) and 2/F: neither zeros nor sums that grow with the layer.
  const double variance = squares / static_cast<double>(weights.size());
  EXPECT_GT(variance, 0.5 / static_cast<double>(shape.hidden));
  EXPECT_LT(variance, 2.0 / static_cast<double>(shape.ffn));
}

TEST(LayerInputsTest, PackedAndPlainAreTheSameWeights) {
  const Context context({.num_threads = 2});
  const LayerShape shape = TinyShape();
  const PlainExperts plain(context, shape, WeightFormat::kF32);
  const ExpertWeights from_plain = PackExpertsOf(context, shape, WeightFormat::kBf16, &plain);
  const ExpertWeights made_again = PackExpertsOf(context, shape, WeightFormat::kBf16, nullptr);
  for (int64_t expert = 0; expert < shape.num_experts; ++expert) {
    for (int64_t row = 0; row < 2 * shape.ffn; ++row) {
      const float value = plain.gate_up(expert)[row * shape.hidden + 69];
      ASSERT_EQ(from_plain.gate_up.At(expert, row, 69), value);
      ASSERT_EQ(made_again.gate_up.At(expert, row, 69), value);
    }
    for (int64_t row = 0; row < shape.hidden; ++row) {
      const float value = plain.down(expert)[row * shape.ffn + 36];
      ASSERT_EQ(from_plain.down.At(expert, row, 36), value);
      ASSERT_EQ(made_again.down.At(expert, row, 36), value);
    }
  }
}

TEST(LayerInputsTest, RoutingKindsSpreadTokensAsTheySay) {
  const Context context({.num_threads = 1});
  LayerShape shape = TinyShape();
  shape.num_experts = 16;
  const int64_t num_tokens = 2000;
  const auto counts = [&](RoutingKind kind) {
    auto result = RouteOurs(context, shape, RandomLogits(kind, num_tokens, shape.num_experts, 7))
                      .expert_counts;
    std::sort(result.begin(), result.end());
    return result;
  };
  const double mean = static_cast<double>(num_tokens * shape.top_k) / 16;
  EXPECT_NEAR(static_cast<double>(counts(RoutingKind::kUniform).front()), mean, 0.3 * mean);
  EXPECT_GT(static_cast<double>(counts(RoutingKind::kZipf).back()), 3 * mean);
  EXPECT_EQ(counts(RoutingKind::kOneHot).back(), num_tokens);
  EXPECT_LT(counts(RoutingKind::kOneHot).at(14), num_tokens / 8);
}

TEST(PlainRoutingTest, AgreesWithThePlanAndDifferencesAreFound) {
  const Context context({.num_threads = 2});
  const LayerShape shape = TinyShape();
  const auto logits = RandomLogits(RoutingKind::kUniform, 150, shape.num_experts, 1);
  const RoutingPlan plan = RouteOurs(context, shape, logits);
  PlainRouting plain = RoutePlain(context, shape, logits.data(), 150);
  EXPECT_EQ(CompareRouting(plan, plain, logits.data()), "");

  plain.weights[17] += 0.01f;
  EXPECT_NE(CompareRouting(plan, plain, logits.data()), "");
  plain.weights[17] = plan.expert_weights[17];
  std::swap(plain.expert_slots[0], plain.expert_slots[1]);
  EXPECT_NE(CompareRouting(plan, plain, logits.data()), "");
  std::swap(plain.ids[0], plain.ids[1]);
  EXPECT_NE(CompareRouting(plan, plain, logits.data()), "");
}

class PlainLoopTest : public EachIsaTest {};

TEST_P(PlainLoopTest, PassesTheCheckForAllSmallRemainders) {
  const Context context({.num_threads = 2});
  for (const int64_t extent : {1, 2, 31, 32, 33, 63, 65, 70}) {
    LayerShape shape = TinyShape();
    shape.hidden = extent;
    shape.ffn = 71 - extent;
    const int64_t num_tokens = 9;
    const PlainExperts experts(context, shape, WeightFormat::kF32);
    const auto logits = RandomLogits(RoutingKind::kZipf, num_tokens, shape.num_experts, 1);
    const PlainRouting routing = RoutePlain(context, shape, logits.data(), num_tokens);
    const std::vector<float> x = RandomTokens(num_tokens, shape.hidden);
    std::vector<float> activations;
    std::vector<float> out(x.size(), 1e9f);  // what was there must not count
    RunPlainLoop(context, shape, experts, routing, x, activations, out);
    const auto tokens = TokensToCheck(num_tokens);
    const auto rows =
        ComputeRows(context, shape, {}, &experts, x, routing.ids, routing.weights, tokens);
    EXPECT_LE(CheckRows(rows, out, "the plain loop"), 1);
    // Rows made from regenerated weights are the same rows.
    const auto again =
        ComputeRows(context, shape, {}, nullptr, x, routing.ids, routing.weights, tokens);
    ASSERT_EQ(again.size(), 3u);
    EXPECT_EQ(again[2].expected, rows[2].expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, PlainLoopTest, ::testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst::bench
