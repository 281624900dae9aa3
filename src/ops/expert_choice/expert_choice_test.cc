// Tests of expert-choice routing by hand, against a plain fp64 oracle, and of what it refuses.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/expert_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"

namespace opst {
namespace {

using testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class ExpertChoiceRoutingTest : public testing::TestWithParam<const char*> {
 protected:
  RoutingPlan Route(const std::vector<std::vector<float>>& rows,
                    const ExpertChoiceRoutingOptions& options) {
    std::vector<float> logits;
    for (const auto& row : rows) logits.insert(logits.end(), row.begin(), row.end());
    const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())};
    return RouteByExpertChoice(context_, ConstTensorView(logits.data(), shape), options);
  }

  const Context context_ = MakeContext(2, {{"implementation", GetParam()}, {"log", "error"}});
};

INSTANTIATE_TEST_SUITE_P(Implementations, ExpertChoiceRoutingTest,
                         testing::Values("auto", "reference"),
                         [](const auto& test) { return std::string(test.param); });

// Softmax of (0, ln 3) = (1/4, 3/4); capacity 2.
TEST_P(ExpertChoiceRoutingTest, EveryExpertTakesItsBestTokens) {
  const float ln3 = std::log(3.0f);
  const float ln9 = std::log(9.0f);
  const std::vector<std::vector<float>> rows = {{0, ln3}, {ln3, 0}, {0, 0}, {0, ln9}};
  const RoutingPlan plan = Route(rows, {.capacity_factor = 1});
  EXPECT_EQ(plan.top_k, 1);
  EXPECT_THAT(plan.expert_ids, ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(plan.expert_counts, ElementsAre(2, 2));
  EXPECT_NEAR(plan.expert_weights[0], 0.75, 1e-6);
  EXPECT_NEAR(plan.expert_weights[2], 0.5, 1e-6);
  const RoutingPlan more = Route(rows, {.capacity_factor = 1.5, .renormalizes = true});
  EXPECT_EQ(more.top_k, 2);
  EXPECT_THAT(more.expert_ids, ElementsAre(1, 0, 0, -1, 0, 1, 1, -1));
  EXPECT_NEAR(more.expert_weights[0], 0.75, 1e-6);
  EXPECT_NEAR(more.expert_weights[2], 1, 1e-6);
}

TEST_P(ExpertChoiceRoutingTest, ATokenNobodyTakesHasNoRow) {
  const RoutingPlan plan = Route({{9, 0}, {0, 9}, {0, 0}}, {.capacity_factor = 0.5});
  EXPECT_EQ(plan.top_k, 1);
  EXPECT_THAT(plan.expert_ids, ElementsAre(0, 1, -1));
}

TEST_P(ExpertChoiceRoutingTest, TiesGoToTheEarlierToken) {
  const RoutingPlan plan = Route({{0, 0}, {0, 0}, {0, 0}, {0, 0}}, {.capacity_factor = 1});
  EXPECT_EQ(plan.top_k, 2);
  EXPECT_THAT(plan.expert_ids, ElementsAre(0, 1, 0, 1, -1, -1, -1, -1));
}

TEST_P(ExpertChoiceRoutingTest, MaskedPairsAndPaddingAreNeverTaken) {
  const std::vector<uint8_t> is_padding = {0, 1, 0, 0};
  const RoutingPlan plan = Route({{kNan, 0}, {5, 5}, {-kInfinity, kInfinity}, {kNan, -kInfinity}},
                                 {.capacity_factor = 2, .is_padding = is_padding});
  EXPECT_THAT(plan.expert_ids, ElementsAre(1, -1, 1, -1));
  EXPECT_THAT(plan.expert_counts, ElementsAre(0, 2));
  EXPECT_EQ(plan.num_empty_rows, 1);
}

TEST(ExpertChoiceRoutingLogTest, TokensWithoutUsableLogitsAreWarnedAboutOnce) {
  std::vector<std::string> lines;
  const Context context = MakeLoggingContext(lines, "warning");
  const std::vector<float> logits = {kNan, -kInfinity, 1, 2};
  for (int i = 0; i < 2; ++i) {
    RouteByExpertChoice(context, ConstTensorView(logits.data(), Shape{2, 2}));
  }
  EXPECT_THAT(lines, ElementsAre("[expert_choice] 1 of 2 token(s) have no usable router logit (all "
                                 "NaN or masked); no expert takes them"));
}

TEST_P(ExpertChoiceRoutingTest, SmallestCases) {
  const RoutingPlan none = RouteByExpertChoice(
      context_, ConstTensorView(static_cast<const float*>(nullptr), Shape{0, 3}));
  EXPECT_EQ(none.num_rows(), 0);
  EXPECT_EQ(none.top_k, 1);
  const RoutingPlan one = Route({{3}}, {.capacity_factor = 0.01});
  EXPECT_THAT(one.expert_ids, ElementsAre(0));
  EXPECT_THAT(one.expert_weights, ElementsAre(1));
}

// Every expert has the tokens of the largest fp64 scores; only near ties may differ.
TEST_P(ExpertChoiceRoutingTest, RandomBatchesAreWhatFp64Takes) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 2);
  for (int round = 0; round < 1000; ++round) {
    const size_t num_tokens = random() % 40 + 1;
    const size_t num_experts = random() % 12 + 1;
    const double factor = static_cast<double>(random() % 30 + 1) / 10;
    std::vector<std::vector<float>> rows(num_tokens, std::vector<float>(num_experts));
    std::vector<std::vector<double>> scores(num_tokens, std::vector<double>(num_experts));
    for (size_t t = 0; t < num_tokens; ++t) {
      double sum = 0;
      for (size_t e = 0; e < num_experts; ++e) {
        rows[t][e] = normal(random);
        scores[t][e] = std::exp(static_cast<double>(rows[t][e]));
        sum += scores[t][e];
      }
      for (double& score : scores[t]) score /= sum;
    }
    const RoutingPlan plan = Route(rows, {.capacity_factor = factor});
    const auto capacity = std::min(
        num_tokens,
        static_cast<size_t>(std::max(1.0, std::ceil(factor * static_cast<double>(num_tokens) /
                                                    static_cast<double>(num_experts)))));
    std::vector<std::vector<bool>> is_taken(num_tokens, std::vector<bool>(num_experts, false));
    for (size_t slot = 0; slot < plan.expert_ids.size(); ++slot) {
      if (plan.expert_ids[slot] < 0) continue;
      const size_t t = slot / static_cast<size_t>(plan.top_k);
      const auto e = static_cast<size_t>(plan.expert_ids[slot]);
      ASSERT_FALSE(is_taken[t][e]);
      is_taken[t][e] = true;
      ASSERT_NEAR(plan.expert_weights[slot], scores[t][e], 2e-6);
    }
    for (size_t e = 0; e < num_experts; ++e) {
      ASSERT_EQ(plan.expert_counts[e], static_cast<int64_t>(capacity));
      double worst_taken = 2;
      double best_left = -1;
      for (size_t t = 0; t < num_tokens; ++t) {
        if (is_taken[t][e]) worst_taken = std::min(worst_taken, scores[t][e]);
        if (!is_taken[t][e]) best_left = std::max(best_left, scores[t][e]);
      }
      ASSERT_GE(worst_taken, best_left - 2e-6) << "round " << round << ", expert " << e;
    }
  }
}

TEST_P(ExpertChoiceRoutingTest, SameBitsForAnyNumberOfThreadsAndStrides) {
  std::vector<float> logits(300 * 9, kNan);
  std::vector<float> packed;
  std::mt19937 random(5);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i % 9 < 7) packed.push_back(logits[i] = static_cast<float>(random() % 50) * 0.1f);
  }
  const ConstTensorView strided(logits.data(), DType::kF32, Shape{300, 7}, 9);
  const RoutingPlan wanted =
      RouteByExpertChoice(context_, ConstTensorView(packed.data(), Shape{300, 7}));
  for (const int threads : {1, 3}) {
    const Context context = MakeContext(threads, {{"implementation", GetParam()}});
    const RoutingPlan plan = RouteByExpertChoice(context, strided);
    EXPECT_EQ(plan.expert_ids, wanted.expert_ids);
    EXPECT_EQ(plan.expert_weights, wanted.expert_weights);
    EXPECT_EQ(plan.row_to_slot, wanted.row_to_slot);
  }
}

TEST(ExpertChoiceRoutingErrorsTest, RefusesWhatIsNoRequest) {
  const Context context = MakeContext(1);
  const std::vector<float> logits(8);
  const ConstTensorView view(logits.data(), Shape{2, 4});
  const auto reject = [&](ConstTensorView values, const ExpertChoiceRoutingOptions& options) {
    return Rejection([&] { RouteByExpertChoice(context, values, options); });
  };
  EXPECT_EQ(reject(ConstTensorView(logits.data(), Shape{8}), {}),
            "[expert_choice] logits must be [T,E] f32; got [8] f32");
  EXPECT_EQ(reject(ConstTensorView(logits.data(), Shape{2, 0}), {}),
            "[expert_choice] num_experts must be positive; got 0");
  EXPECT_EQ(reject(view, {.capacity_factor = 0}),
            "[expert_choice] capacity_factor must be finite and above 0; got 0");
  const std::vector<uint8_t> flags(3);
  EXPECT_EQ(reject(view, {.is_padding = flags}),
            "[expert_choice] is_padding must have one value per token; got 3 for 2 tokens");
}

}  // namespace
}  // namespace opst
