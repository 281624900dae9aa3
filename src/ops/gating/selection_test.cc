// Tests of the rules that decide how many experts a row takes, and of load, padding and scores, on
// rows whose result is known.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/testing/contexts.h"
#include "opst/ops/gating.h"

namespace opst {
namespace {

using testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Logits of these probabilities.
std::vector<float> LogitsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

SelectionOptions Threshold(float threshold) {
  return {.rule = SelectionRule::kThreshold, .threshold = threshold};
}
SelectionOptions TopP(float top_p) { return {.rule = SelectionRule::kTopP, .top_p = top_p}; }
SelectionOptions ByEntropy(std::vector<EntropyThreshold> thresholds) {
  return {.rule = SelectionRule::kEntropy, .entropy_thresholds = std::move(thresholds)};
}

class SelectionTest : public testing::TestWithParam<const char*> {
 protected:
  GatingResult Gate(const std::vector<std::vector<float>>& rows, const GatingOptions& options) {
    std::vector<float> logits;
    for (const auto& row : rows) logits.insert(logits.end(), row.begin(), row.end());
    const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())};
    return opst::Gate(context_, ConstTensorView(logits.data(), shape), options);
  }
  void ExpectRow(const std::vector<float>& logits, const GatingOptions& options,
                 const std::vector<int32_t>& ids, const std::vector<double>& weights) {
    const GatingResult result = Gate({logits}, options);
    EXPECT_EQ(result.expert_ids, ids);
    ASSERT_EQ(result.expert_weights.size(), weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_NEAR(result.expert_weights[i], weights[i], 1e-6) << "slot " << i;
    }
  }

  const Context context_ = MakeContext(2, {{"implementation", GetParam()}, {"log", "error"}});
};

INSTANTIATE_TEST_SUITE_P(Implementations, SelectionTest, testing::Values("auto", "reference"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(SelectionTest, AThresholdKeepsWhatIsAboveItAndRenormalises) {
  const std::vector<float> logits = LogitsOf({0.1, 0.5, 0.05, 0.35});
  ExpectRow(logits, {.top_k = 4, .selection = Threshold(0.2f)}, {1, 3, -1, -1},
            {0.5 / 0.85, 0.35 / 0.85, 0, 0});
  ExpectRow(logits, {.top_k = 4, .selection = Threshold(0.01f)}, {1, 3, 0, 2},
            {0.5, 0.35, 0.1, 0.05});
  ExpectRow(logits, {.top_k = 2, .selection = Threshold(0.01f)}, {1, 3}, {0.5 / 0.85, 0.35 / 0.85});
  ExpectRow(logits, {.top_k = 3, .selection = Threshold(0.2f), .renormalizes = false, .scale = 2},
            {1, 3, -1}, {1, 0.7, 0});
}

TEST_P(SelectionTest, AThresholdNobodyReachesLeavesTheBest) {
  ExpectRow(LogitsOf({0.1, 0.5, 0.05, 0.35}), {.top_k = 3, .selection = Threshold(0.9f)},
            {1, -1, -1}, {1, 0, 0});
}

// No expert of an even row is above 1/E, whatever E.
TEST_P(SelectionTest, TheDefaultThresholdIsOneOverE) {
  ExpectRow(LogitsOf({0.3, 0.24, 0.26, 0.2}), {.top_k = 4, .selection = Threshold(0)},
            {0, 2, -1, -1}, {0.3 / 0.56, 0.26 / 0.56, 0, 0});
  for (size_t num_experts = 1; num_experts <= 400; ++num_experts) {
    const std::vector<float> even(num_experts, 0.7f);
    for (const ScoreFunction function : {ScoreFunction::kSoftmax, ScoreFunction::kSigmoid}) {
      GatingOptions options{.top_k = static_cast<int64_t>(num_experts), .score_function = function};
      options.selection = Threshold(0);
      const std::vector<int32_t> ids = Gate({even}, options).expert_ids;
      EXPECT_EQ(ids[0], 0);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), -1), static_cast<int64_t>(num_experts) - 1);
    }
  }
}

// p is the score over the sum of the scores: sigmoid(0, ln 3, -ln 3) = 1/2, 3/4, 1/4.
TEST_P(SelectionTest, SigmoidScoresAreNormalisedForTheRule) {
  const float ln3 = std::log(3.0f);
  GatingOptions options{.top_k = 3, .score_function = ScoreFunction::kSigmoid};
  options.selection = Threshold(0.4f);  // p = 1/3, 1/2, 1/6
  ExpectRow({0, ln3, -ln3}, options, {1, -1, -1}, {1, 0, 0});
  options.selection = TopP(0.6f);
  ExpectRow({0, ln3, -ln3}, options, {1, 0, -1}, {0.6, 0.4, 0});
}

TEST_P(SelectionTest, TopPTakesTheFewestThatReachIt) {
  const std::vector<float> logits = LogitsOf({0.1, 0.5, 0.05, 0.35});
  ExpectRow(logits, {.top_k = 4, .selection = TopP(0.4f)}, {1, -1, -1, -1}, {1, 0, 0, 0});
  ExpectRow(logits, {.top_k = 4, .selection = TopP(0.6f)}, {1, 3, -1, -1},
            {0.5 / 0.85, 0.35 / 0.85, 0, 0});
  ExpectRow(logits, {.top_k = 4, .selection = TopP(1)}, {1, 3, 0, 2}, {0.5, 0.35, 0.1, 0.05});
  ExpectRow(logits, {.top_k = 1, .selection = TopP(0.9f)}, {1}, {1});
}

TEST_P(SelectionTest, LowEntropyTakesFewerExperts) {
  const SelectionOptions selection = ByEntropy({{0.3f, 1}, {0.8f, 2}});
  const GatingOptions options{.top_k = 3, .selection = selection};
  // H / ln 4 = 0.121, 0.788 and 1.
  ExpectRow(LogitsOf({0.01, 0.97, 0.01, 0.01}), options, {1, -1, -1}, {1, 0, 0});
  ExpectRow(LogitsOf({0.1, 0.5, 0.05, 0.35}), options, {1, 3, -1}, {0.5 / 0.85, 0.35 / 0.85, 0});
  ExpectRow({0, 0, 0, 0}, options, {0, 1, 2}, {1.0 / 3, 1.0 / 3, 1.0 / 3});
  ExpectRow({kInfinity, 0, 0, 0}, options, {0, -1, -1}, {1, 0, 0});
  const SelectionOptions certain = ByEntropy({{0.1f, 1}});
  ExpectRow({5}, {.top_k = 1, .selection = certain}, {0}, {1});
}

TEST_P(SelectionTest, MaskedExpertsAreTakenByNeitherThresholdNorTopP) {
  for (const SelectionOptions& selection : {Threshold(1e-9f), TopP(1)}) {
    ExpectRow({-kInfinity, 1, kNan, 1}, {.top_k = 4, .selection = selection}, {1, 3, -1, -1},
              {0.5, 0.5, 0, 0});
  }
}

TEST_P(SelectionTest, ARowWithoutUsableLogitsIsTheSameUnderEveryRule) {
  for (const SelectionOptions& selection : {Threshold(0.2f), TopP(0.5f), ByEntropy({{0.5f, 1}})}) {
    const GatingResult result =
        Gate({{-kInfinity, kNan, kNan}}, {.top_k = 2, .selection = selection});
    EXPECT_THAT(result.expert_ids, ElementsAre(0, 1));
    EXPECT_THAT(result.expert_weights, ElementsAre(0, 0));
    EXPECT_EQ(result.num_empty_rows, 1);
  }
}

// The bias orders, the scores decide: candidates are 0, 3, 2; p = 0.1, 0.35, 0.05.
TEST_P(SelectionTest, ABiasOrdersButDoesNotLiftAboveAThreshold) {
  const std::vector<float> bias = {2, 0, 0.5f, 0.4f};
  GatingOptions options{.top_k = 3, .selection = Threshold(0.2f)};
  options.selection_bias = bias;
  ExpectRow(LogitsOf({0.1, 0.5, 0.05, 0.35}), options, {3, -1, -1}, {1, 0, 0});
  options.selection = Threshold(0.4f);
  ExpectRow(LogitsOf({0.1, 0.5, 0.05, 0.35}), options, {0, -1, -1}, {1, 0, 0});
  options.selection = TopP(0.2f);
  ExpectRow(LogitsOf({0.1, 0.5, 0.05, 0.35}), options, {0, 3, -1}, {0.1 / 0.45, 0.35 / 0.45, 0});
}

// u = 2 halves the score with a ratio of 1; u below 1 changes nothing.
TEST_P(SelectionTest, BusyExpertsArePassedOverButMixWithTheirScores) {
  const std::vector<float> logits = LogitsOf({0.1, 0.4, 0.2, 0.3});
  const std::vector<float> utilization = {0.1f, 2, 1, 0.5f};
  GatingOptions options{.top_k = 2};
  options.utilization = utilization;
  ExpectRow(logits, options, {1, 3}, {4.0 / 7, 3.0 / 7});  // a ratio of 0 is off
  options.load_balance_ratio = 0.2f;                       // 0.348
  ExpectRow(logits, options, {1, 3}, {4.0 / 7, 3.0 / 7});
  options.load_balance_ratio = 0.5f;  // 0.283
  ExpectRow(logits, options, {3, 1}, {3.0 / 7, 4.0 / 7});
  options.load_balance_ratio = 1.5f;  // 0.141
  ExpectRow(logits, options, {3, 2}, {0.6, 0.4});
  options.renormalizes = false;
  ExpectRow(logits, options, {3, 2}, {0.3, 0.2});
  ExpectRow({kNan, kInfinity, -kInfinity, 5}, options, {1, 3}, {1, 0});
}

TEST_P(SelectionTest, PaddingGetsNoExpertAndIsNotCounted) {
  const std::vector<uint8_t> is_padding = {0, 1, 1, 0};
  GatingOptions options{.top_k = 1};
  options.is_padding = is_padding;
  const GatingResult result =
      Gate({{0, 1}, {1, 0}, {kNan, -kInfinity}, {-kInfinity, kNan}}, options);
  EXPECT_THAT(result.expert_ids, ElementsAre(1, -1, -1, 0));
  EXPECT_THAT(result.expert_weights, ElementsAre(1, 0, 0, 0));
  EXPECT_EQ(result.num_empty_rows, 1);
}

TEST_P(SelectionTest, ScoresOfAllExpertsAreThoseWithoutBias) {
  const std::vector<float> bias = {1, 2, 3};
  GatingOptions options{.top_k = 1, .score_function = ScoreFunction::kSigmoid};
  options.selection_bias = bias;
  options.returns_scores = true;
  const std::vector<uint8_t> is_padding = {1, 0, 0};
  options.is_padding = is_padding;
  const std::vector<std::vector<float>> rows = {
      {0, kInfinity, -1}, {kNan, 1, -kInfinity}, {kNan, kNan, kNan}};
  const double one = 1 / (1 + std::exp(-1.0));
  const std::vector<double> sigmoids = {0.5, 1, 1 - one, 0, one, 0, 0, 0, 0};
  const double sum = std::exp(0.0) + std::exp(1.0) + std::exp(2.0);
  const std::vector<double> softmax = {1 / sum, std::exp(1) / sum, std::exp(2) / sum};
  const GatingResult sigmoid = Gate(rows, options);
  ASSERT_EQ(sigmoid.scores.size(), 9u);
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(sigmoid.scores[i], sigmoids[i], 1e-7) << i;
  const GatingResult result = Gate({{0, 1, 2}}, {.top_k = 1, .returns_scores = true});
  ASSERT_EQ(result.scores.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(result.scores[i], softmax[i], 1e-7) << i;
  EXPECT_TRUE(Gate({{0, 1, 2}}, {.top_k = 1}).scores.empty());
}

TEST_P(SelectionTest, ASoftmaxOfTheChosenEqualsRenormalisationWhereScoresAreNotTooSmall) {
  GatingOptions options{.top_k = 2, .score_function = ScoreFunction::kSoftmaxOfChosen};
  options.renormalizes = false;  // it always is
  ExpectRow({1, 2, 3, 4}, options, {3, 2}, {0.731059, 0.268941});
  ExpectRow({kInfinity, 0, kInfinity}, options, {0, 2}, {0.5, 0.5});
  ExpectRow({kInfinity, 0, kNan}, options, {0, 1}, {1, 0});
  ExpectRow({0, -kInfinity, kNan}, options, {0, 1}, {1, 0});
  // Only a bias, groups or a mask make experts be chosen whose scores are 0 in f32.
  const std::vector<float> bias = {0, 9, 9};
  options.selection_bias = bias;
  ExpectRow({0, -200, -201}, options, {1, 2}, {0.731059, 0.268941});
  options.score_function = ScoreFunction::kSoftmax;
  options.renormalizes = true;
  ExpectRow({0, -200, -201}, options, {1, 2}, {0, 0});
}

TEST_P(SelectionTest, TheRenormalisationEpsilonJoinsTheSum) {
  GatingOptions options{.top_k = 2, .score_function = ScoreFunction::kSigmoid};
  options.renormalization_epsilon = 0.5f;
  ExpectRow({0, 0, -1}, options, {0, 1}, {1.0 / 3, 1.0 / 3});
}

}  // namespace
}  // namespace opst
