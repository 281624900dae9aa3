// Tests of what gating refuses, and of the texts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"
#include "opst/ops/gating.h"

namespace opst {
namespace {

class GatingErrorsTest : public testing::Test {
 protected:
  std::string Reject(const GatingOptions& options, int64_t num_experts = 4) {
    const ConstTensorView logits(logits_.data(), Shape{1, num_experts});
    return Rejection([&] { Gate(context_, logits, options); });
  }

  const Context context_ = MakeContext(1);
  const std::vector<float> logits_ = std::vector<float>(16);
};

TEST_F(GatingErrorsTest, MoreSlotsThanExpertsNamesBoth) {
  EXPECT_EQ(Reject({.top_k = 5}),
            "[gating] top_k must be between 1 and the number of experts; got top_k 5 of 4 experts");
}

TEST_F(GatingErrorsTest, NoSlotsAndNoExperts) {
  EXPECT_EQ(Reject({.top_k = 0}),
            "[gating] top_k must be between 1 and the number of experts; got top_k 0 of 4 experts");
  EXPECT_EQ(Reject({.top_k = -1}),
            "[gating] top_k must be between 1 and the number of experts; got top_k -1 of 4 "
            "experts");
  EXPECT_EQ(Reject({.top_k = 1}, 0),
            "[gating] top_k must be between 1 and the number of experts; got top_k 1 of 0 experts");
}

TEST_F(GatingErrorsTest, GroupsThatDoNotFit) {
  EXPECT_EQ(Reject({.top_k = 1, .num_groups = 3}),
            "[gating] num_groups must divide the number of experts; got 3 for 4 experts");
  EXPECT_EQ(Reject({.top_k = 1, .num_groups = 0}),
            "[gating] num_groups must divide the number of experts; got 0 for 4 experts");
  EXPECT_EQ(Reject({.top_k = 1, .num_groups = 2, .num_kept_groups = 3}),
            "[gating] num_kept_groups must be between 1 and num_groups; got 3 of 2");
  EXPECT_EQ(Reject({.top_k = 1, .num_groups = 2, .num_kept_groups = 0}),
            "[gating] num_kept_groups must be between 1 and num_groups; got 0 of 2");
  EXPECT_EQ(Reject({.top_k = 3, .num_groups = 2, .num_kept_groups = 1}),
            "[gating] the kept groups must hold top_k experts; got 1 groups with 2 experts for "
            "top_k 3");
}

TEST_F(GatingErrorsTest, ABiasOfTheWrongLength) {
  const std::vector<float> bias(3);
  GatingOptions options{.top_k = 1};
  options.selection_bias = bias;
  EXPECT_EQ(Reject(options),
            "[gating] selection_bias must have one value per expert; got 3 for 4 experts");
}

TEST_F(GatingErrorsTest, ABiasWithNanOrInfinityNamesTheExpert) {
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> bias = {0, 0, poison, 0};
    GatingOptions options{.top_k = 1};
    options.selection_bias = bias;
    const std::string text = Reject(options);
    EXPECT_EQ(text.find("[gating] selection_bias must be finite; got "), 0u) << text;
    EXPECT_NE(text.find(" at [2]"), std::string::npos) << text;
  }
}

TEST_F(GatingErrorsTest, SparsemixerTakesNoBiasNoGroupsAndNoOddEpsilon) {
  GatingOptions options{.top_k = 2, .score_function = ScoreFunction::kSparsemixer};
  options.num_groups = 2;
  EXPECT_EQ(Reject(options),
            "[gating] sparsemixer takes neither a selection_bias nor groups; got 0 values, 2 "
            "groups");
  options.num_groups = 1;
  for (const float epsilon : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    options.sparsemixer_epsilon = epsilon;
    EXPECT_TRUE(
        Reject(options).starts_with("[gating] sparsemixer_epsilon must be a number above 0; got "));
  }
}

TEST_F(GatingErrorsTest, AScaleThatIsNoNumber) {
  GatingOptions options;
  options.scale = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Reject(options), "[gating] scale must be finite; got nan");
}

TEST_F(GatingErrorsTest, SelectionRulesOutOfRange) {
  GatingOptions options{.top_k = 3};
  options.selection = {.rule = SelectionRule::kThreshold, .threshold = 1};
  EXPECT_EQ(Reject(options), "[gating] threshold must be at least 0 and below 1; got 1");
  options.selection.threshold = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Reject(options), "[gating] threshold must be at least 0 and below 1; got nan");
  options.selection = {.rule = SelectionRule::kTopP, .top_p = 0};
  EXPECT_EQ(Reject(options), "[gating] top_p must be above 0 and at most 1; got 0");
  options.selection = {.rule = SelectionRule::kEntropy};
  EXPECT_EQ(Reject(options), "[gating] kEntropy needs entropy_thresholds; got none");
  using Steps = std::vector<EntropyThreshold>;
  const std::string rule =
      "[gating] entropy_thresholds must ascend, entropies within 0..1 and experts within 1..top_k;"
      " got ";
  for (const auto& [steps, facts] : std::vector<std::pair<Steps, std::string>>{
           {{{0.5f, 4}}, "(0.5, 4) after (0, 0) for top_k 3"},
           {{{0.5f, 0}}, "(0.5, 0) after (0, 0) for top_k 3"},
           {{{1.5f, 1}}, "(1.5, 1) after (0, 0) for top_k 3"},
           {{{0.5f, 1}, {0.5f, 2}}, "(0.5, 2) after (0.5, 1) for top_k 3"},
           {{{0.5f, 2}, {0.75f, 1}}, "(0.75, 1) after (0.5, 2) for top_k 3"}}) {
    options.selection.entropy_thresholds = steps;
    EXPECT_EQ(Reject(options), rule + facts);
  }
}

TEST_F(GatingErrorsTest, LoadsThatAreNone) {
  GatingOptions options{.top_k = 1};
  options.load_balance_ratio = -1;
  EXPECT_EQ(Reject(options), "[gating] load_balance_ratio must be finite and not negative; got -1");
  options.load_balance_ratio = 1;
  EXPECT_EQ(Reject(options),
            "[gating] load_balance_ratio needs one utilization per expert; got 0 for 4 experts");
  const std::vector<float> utilization = {1, 1, 1, -2};
  options.utilization = utilization;
  EXPECT_EQ(Reject(options), "[gating] utilization must be finite and not negative; got -2 at [3]");
}

TEST_F(GatingErrorsTest, SparsemixerHasNoScoresOverAllExperts) {
  GatingOptions options{.top_k = 1, .score_function = ScoreFunction::kSparsemixer};
  options.returns_scores = true;
  const std::string rule =
      "[gating] sparsemixer has no scores over all experts: it takes kTopK, no load_balance_ratio "
      "and no returns_scores; got ";
  EXPECT_EQ(Reject(options), rule + "rule 0, ratio 0");
  options.returns_scores = false;
  options.selection.rule = SelectionRule::kThreshold;
  EXPECT_EQ(Reject(options), rule + "rule 1, ratio 0");
}

TEST_F(GatingErrorsTest, PaddingOfAnotherLength) {
  const std::vector<uint8_t> is_padding(2);
  GatingOptions options{.top_k = 1};
  options.is_padding = is_padding;
  EXPECT_EQ(Reject(options),
            "[gating] is_padding must have one value per token; got 2 for 1 tokens");
  options.is_padding = {};
  options.renormalization_epsilon = -1;
  EXPECT_EQ(Reject(options),
            "[gating] renormalization_epsilon must be finite and not negative; got -1");
}

TEST_F(GatingErrorsTest, LogitsOfAnotherRankOrType) {
  const ConstTensorView flat(logits_.data(), Shape{4});
  EXPECT_EQ(Rejection([&] { Gate(context_, flat, {}); }),
            "[gating] logits must be [T,E] f32; got [4] f32");
  const ConstTensorView halves(logits_.data(), DType::kBf16, Shape{2, 4});
  EXPECT_EQ(Rejection([&] { Gate(context_, halves, {}); }),
            "[gating] logits must be [T,E] f32; got [2,4] bf16");
}

}  // namespace
}  // namespace opst
