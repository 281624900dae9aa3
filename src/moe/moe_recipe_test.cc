// What a layer makes of its recipe: scales, shared experts, biases and routers, against plain
// loops.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "opst/moe_layer.h"
#include "opst/pack.h"

namespace opst {
namespace {

constexpr int64_t kHidden = 21;
constexpr int64_t kFfn = 9;
constexpr int64_t kShared = 13;
constexpr int64_t kExperts = 8;
constexpr int64_t kTokens = 17;

// Weights for every part that a recipe may ask for.
class MoeRecipeTest : public testing::TestWithParam<DType> {
 protected:
  PackedWeights Pack(int64_t matrices, int64_t rows, int64_t columns, uint32_t seed,
                     PanelOrder order = PanelOrder::kPlain) {
    const double scale = 1 / std::sqrt(static_cast<double>(columns));
    const Matrix weights = Matrix::Random(GetParam(), matrices * rows, columns, seed, scale);
    return PackExperts(context_, weights.Stacked(matrices), FormatOf(GetParam()), order);
  }
  ExpertWeights Experts(int64_t count, int64_t ffn, uint32_t seed) {
    return {Pack(count, 2 * ffn, kHidden, seed, PanelOrder::kGateUp),
            Pack(count, kHidden, ffn, seed + 1)};
  }

  // out [T,H] of a layer with these recipes.
  std::vector<float> Run(const RoutingRecipe& routing, FfnRecipe ffn, RouterWeights router,
                         std::optional<SharedExpert> shared = {}) {
    ffn.hidden = kHidden;
    ffn.ffn = kFfn;
    const MoeLayer layer(routing, ffn, std::move(router),
                         std::make_shared<LocalExpertStore>(Experts(kExperts, kFfn, 1)),
                         std::move(shared));
    std::vector<float> out(kTokens * kHidden);
    plan_ = layer.Forward(context_, x_.view(), TensorView(out.data(), Shape{kTokens, kHidden}));
    return out;
  }
  RouterWeights Router() { return {.projection = Pack(1, kExperts, kHidden, 5)}; }

  // out of one expert of width kShared on every token.
  std::vector<float> SharedOnly(const ExpertWeights& weights) {
    const std::vector<int32_t> ids(kTokens, 0);
    const std::vector<float> ones(kTokens, 1.0f);
    const Shape shape{kTokens, 1};
    const RoutingPlan plan = BuildRoutingPlan(context_, ConstTensorView(ids.data(), shape),
                                              ConstTensorView(ones.data(), shape), 1);
    std::vector<float> out(kTokens * kHidden);
    MoeFfn(context_, x_.view(), plan, weights, {}, TensorView(out.data(), Shape{kTokens, kHidden}));
    return out;
  }

  static void ExpectSum(const std::vector<float>& out, double a, const std::vector<float>& x,
                        double b, const std::vector<float>& y) {
    ASSERT_EQ(out.size(), x.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const double wanted = a * x[i] + b * y[i];
      const double magnitude = std::abs(a * x[i]) + std::abs(b * y[i]);
      // Sums of k + 1 terms in f32, and the weights' own rounding.
      EXPECT_NEAR(out[i], wanted, 12 * 0x1p-24 * magnitude + 1e-6) << i;
    }
  }

  const Context context_ = MakeContext(2);
  const Matrix x_ = Matrix::Random(DType::kF32, kTokens, kHidden, 3);
  RoutingPlan plan_;
};

// The factor is applied once, to the routed experts only.
TEST_P(MoeRecipeTest, TheRoutedScaleMultipliesRoutedExpertsOnceAndTheSharedOneNever) {
  const RoutingRecipe routing{.num_experts = kExperts, .top_k = 3};
  RoutingRecipe scaled = routing;
  scaled.scale = 2.5f;
  const std::vector<float> routed = Run(routing, {}, Router());
  ExpectSum(Run(scaled, {}, Router()), 2.5, routed, 0, routed);
  const SharedExpert shared{Experts(1, kShared, 30), {}};
  const std::vector<float> both = Run(scaled, {.shared_ffn = kShared}, Router(), shared);
  ExpectSum(both, 2.5, routed, 1, SharedOnly(shared.weights));
}

// Gate weights of zero let half of the shared expert through.
TEST_P(MoeRecipeTest, ASharedGateOfZeroAddsHalfOfTheSharedExpert) {
  const RoutingRecipe routing{.num_experts = kExperts, .top_k = 2};
  const std::vector<float> routed = Run(routing, {}, Router());
  Matrix zeros(GetParam(), 1, kHidden);
  zeros.Fill(0);
  const SharedExpert shared{
      Experts(1, kShared, 30),
      PackExperts(context_, zeros.Stacked(1), FormatOf(GetParam()), PanelOrder::kPlain)};
  const FfnRecipe ffn{.shared_ffn = kShared, .has_shared_gate = true};
  ExpectSum(Run(routing, ffn, Router(), shared), 1, routed, 0.5, SharedOnly(shared.weights));
}

// A shared expert takes no routed slot.
TEST_P(MoeRecipeTest, ASharedExpertTakesNoRoutedSlot) {
  const RoutingRecipe routing{.num_experts = kExperts, .top_k = 3};
  const SharedExpert shared{Experts(1, kShared, 30), {}};
  Run(routing, {.shared_ffn = kShared}, Router(), shared);
  EXPECT_EQ(plan_.top_k, 3);
  EXPECT_EQ(std::accumulate(plan_.expert_counts.begin(), plan_.expert_counts.end(), int64_t{0}),
            3 * kTokens);
}

TEST_P(MoeRecipeTest, ARouterBiasMovesLogits) {
  const RoutingRecipe routing{.num_experts = kExperts, .top_k = 1, .has_bias = true};
  RouterWeights router = Router();
  router.bias.assign(kExperts, 0.0f);
  router.bias[5] = 1000;
  Run(routing, {}, std::move(router));
  EXPECT_EQ(plan_.expert_ids, std::vector<int32_t>(kTokens, 5));
}

// LLaMA-MoE's router: logits = W_r tanh(W_h x).
TEST_P(MoeRecipeTest, AHiddenRouterLayerGoesThroughTanh) {
  const RoutingRecipe routing{.num_experts = kExperts, .top_k = 2, .hidden_dim = 6};
  RouterWeights router{.projection = Pack(1, kExperts, 6, 40)};
  router.hidden = Pack(1, 6, kHidden, 41);
  const PackedWeights second = router.projection;
  const PackedWeights first = *router.hidden;
  Run(routing, {}, std::move(router));
  for (int64_t token = 0; token < kTokens; ++token) {
    std::vector<double> logits(kExperts, 0.0);
    for (int64_t row = 0; row < 6; ++row) {
      double sum = 0;
      for (int64_t h = 0; h < kHidden; ++h) sum += first.At(0, row, h) * x_.At(token, h);
      for (int64_t expert = 0; expert < kExperts; ++expert) {
        logits[static_cast<size_t>(expert)] += second.At(0, expert, row) * std::tanh(sum);
      }
    }
    const auto at = static_cast<size_t>(token * 2);
    const double a = logits[static_cast<size_t>(plan_.expert_ids[at])];
    const double b = logits[static_cast<size_t>(plan_.expert_ids[at + 1])];
    EXPECT_NEAR(plan_.expert_weights[at], 1 / (1 + std::exp(b - a)), 1e-5) << token;
    for (size_t expert = 0; expert < kExperts; ++expert) {
      const auto id = static_cast<int32_t>(expert);
      const bool is_chosen = id == plan_.expert_ids[at] || id == plan_.expert_ids[at + 1];
      EXPECT_TRUE(is_chosen || logits[expert] <= b + 1e-5) << token << ", " << expert;
    }
  }
}

// Empty slots go through every path of the layer: the output is that of the experts that are left.
TEST_P(MoeRecipeTest, ASelectionRuleLeavesSlotsEmpty) {
  RoutingRecipe routing{.num_experts = kExperts, .top_k = 4};
  routing.selection = {.rule = SelectionRule::kThreshold, .threshold = 0.15f};
  const std::vector<float> out = Run(routing, {}, Router());
  const auto num_empty = std::count(plan_.expert_ids.begin(), plan_.expert_ids.end(), -1);
  EXPECT_GT(num_empty, 0);
  EXPECT_LT(num_empty, 3 * kTokens);
  std::vector<float> wanted(kTokens * kHidden);
  MoeFfn(context_, x_.view(), plan_, Experts(kExperts, kFfn, 1), {},
         TensorView(wanted.data(), Shape{kTokens, kHidden}));
  EXPECT_EQ(out, wanted);
  routing.selection.threshold = 0.99f;  // one expert each: top-1
  const std::vector<float> one = Run(routing, {}, Router());
  EXPECT_EQ(one, Run({.num_experts = kExperts, .top_k = 1}, {}, Router()));
}

TEST_P(MoeRecipeTest, AnOverrideBringsItsOwnSelectionRule) {
  const RoutingRecipe routing{.num_experts = kExperts, .top_k = 3};
  const MoeLayer layer(routing, {.hidden = kHidden, .ffn = kFfn}, Router(),
                       std::make_shared<LocalExpertStore>(Experts(kExperts, kFfn, 1)));
  std::vector<float> out(kTokens * kHidden);
  const TensorView view(out.data(), Shape{kTokens, kHidden});
  const auto num_rows = [&](const RoutingOverride& changes) {
    return layer.Forward(context_, x_.view(), view, changes).num_rows();
  };
  EXPECT_EQ(num_rows({}), 3 * kTokens);
  EXPECT_EQ(num_rows({.selection = SelectionOptions{.rule = SelectionRule::kTopP, .top_p = 1e-6f}}),
            kTokens);
  // Entropy steps beyond the experts that are left do nothing.
  SelectionOptions by_entropy{.rule = SelectionRule::kEntropy};
  by_entropy.entropy_thresholds = {{0.001f, 1}, {1.0f, 2}};
  EXPECT_EQ(num_rows({.selection = by_entropy}), 2 * kTokens);
  EXPECT_EQ(num_rows({.top_k = 2, .selection = by_entropy}), 2 * kTokens);
  EXPECT_EQ(num_rows({.masked_experts = {0, 1, 2, 3, 4, 5, 6}, .selection = by_entropy}), kTokens);
}

TEST_P(MoeRecipeTest, ALoadAwareLayerCountsItsCallsAndPassesBusyExpertsOver) {
  RoutingRecipe routing{.num_experts = kExperts, .top_k = 1};
  routing.load_balance_ratio = 4;
  const MoeLayer layer(routing, {.hidden = kHidden, .ffn = kFfn}, Router(),
                       std::make_shared<LocalExpertStore>(Experts(kExperts, kFfn, 1)));
  std::vector<float> out(kTokens * kHidden);
  const TensorView view(out.data(), Shape{kTokens, kHidden});
  ASSERT_NE(layer.load_tracker(), nullptr);
  Run({.num_experts = kExperts, .top_k = 1}, {}, Router());
  const RoutingPlan first = layer.Forward(context_, x_.view(), view);
  EXPECT_EQ(first.expert_ids, plan_.expert_ids);  // nobody is busy yet
  const std::vector<float> utilization = layer.load_tracker()->Utilization();
  for (size_t expert = 0; expert < kExperts; ++expert) {
    const double mean = static_cast<double>(kTokens) / kExperts;
    EXPECT_NEAR(utilization[expert], static_cast<double>(first.expert_counts[expert]) / mean, 1e-5);
  }
  const auto busiest = std::max_element(utilization.begin(), utilization.end());
  const auto at = static_cast<size_t>(busiest - utilization.begin());
  const RoutingPlan second = layer.Forward(context_, x_.view(), view);
  EXPECT_LT(second.expert_counts[at], first.expert_counts[at]);
  layer.load_tracker()->Restore(std::vector<double>(kExperts, 0.0));
  EXPECT_EQ(layer.Forward(context_, x_.view(), view).expert_ids, first.expert_ids);
  EXPECT_THROW(Run({.num_experts = kExperts, .top_k = 1, .load_balance_ratio = -1}, {}, Router()),
               Error);
}

TEST_P(MoeRecipeTest, PartsThatDoNotFitTheRecipeAreRefused) {
  const RoutingRecipe routing{.num_experts = kExperts, .top_k = 2};
  EXPECT_THROW(Run({.num_experts = kExperts, .top_k = 2, .has_bias = true}, {}, Router()), Error);
  EXPECT_THROW(Run({.num_experts = kExperts, .top_k = 2, .hidden_dim = 6}, {}, Router()), Error);
  EXPECT_THROW(Run(routing, {.shared_ffn = kShared}, Router()), Error);
  RouterWeights router = Router();
  router.bias.assign(kExperts, 0.0f);
  EXPECT_THROW(Run(routing, {}, std::move(router)), Error);
}

TEST_P(MoeRecipeTest, ExpertsInPlainPanelsHaveNoGate) {
  const int64_t ffn = 10;
  const auto pack = [&](PanelOrder order) {
    return ExpertWeights{Pack(kExperts, ffn, kHidden, 1, order), Pack(kExperts, kHidden, ffn, 2)};
  };
  const RoutingRecipe routing{.num_experts = kExperts, .top_k = 3};
  const auto make = [&](const ExpertWeights& experts, Activation activation) {
    return MoeLayer(routing, {.hidden = kHidden, .ffn = ffn, .activation = activation}, Router(),
                    std::make_shared<LocalExpertStore>(experts));
  };
  const ExpertWeights experts = pack(PanelOrder::kPlain);
  std::vector<float> out(kTokens * kHidden), wanted(kTokens * kHidden);
  const Shape shape{kTokens, kHidden};
  const RoutingPlan plan =
      make(experts, Activation::kRelu).Forward(context_, x_.view(), TensorView(out.data(), shape));
  MoeFfn(context_, x_.view(), plan, experts, {.activation = Activation::kRelu},
         TensorView(wanted.data(), shape));
  EXPECT_EQ(out, wanted);
  // Rows of a gate and of ups that are too few.
  EXPECT_THROW(make(pack(PanelOrder::kGateUp), Activation::kSilu), Error);
  EXPECT_THROW(make(experts, Activation::kClampedSwiglu), Error);
}

INSTANTIATE_TEST_SUITE_P(Types, MoeRecipeTest,
                         testing::Values(DType::kF32, DType::kBf16, DType::kF16),
                         [](const auto& type) { return std::string(Name(type.param)); });

}  // namespace
}  // namespace opst
