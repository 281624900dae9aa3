// Tests of the gating rules on rows whose result is known: masks, NaN, ties, bias, groups, scaling.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/gating.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ops/testing/contexts.h"

namespace opst {
namespace {

using testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Weights are written with six digits; a score s is within 8 + ln 1/s ulp, less than 5.3e-7.
constexpr double kTolerance = 1e-6;

// Every case runs in the fast implementation and in the reference.
class GatingTest : public testing::TestWithParam<const char*> {
 protected:
  // Rows of equal length.
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
      EXPECT_NEAR(result.expert_weights[i], weights[i], kTolerance) << "slot " << i;
    }
  }

  std::vector<std::string> lines_;
  ContextOptions Options() {
    ContextOptions options;
    options.num_threads = 2;
    options.settings = {{"implementation", GetParam()}};
    options.log_sink = [this](LogLevel, std::string_view line) { lines_.emplace_back(line); };
    return options;
  }
  Context context_{Options()};
};

INSTANTIATE_TEST_SUITE_P(Implementations, GatingTest, testing::Values("auto", "reference"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(GatingTest, ANanRowGetsTheFirstIdsOneWarningAndLeavesTheOthersAlone) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> rows(200, std::vector<float>(8));
  for (auto& row : rows) {
    for (float& logit : row) logit = normal(random);
  }
  const GatingResult clean = Gate(rows, {.top_k = 3});
  EXPECT_EQ(clean.num_empty_rows, 0);
  for (const size_t broken : {0u, 77u, 199u}) {
    std::vector<std::vector<float>> poisoned = rows;
    poisoned[broken].assign(8, kNan);
    const GatingResult result = Gate(poisoned, {.top_k = 3});
    EXPECT_EQ(result.num_empty_rows, 1);
    for (size_t slot = 0; slot < result.expert_ids.size(); ++slot) {
      const bool is_broken = slot / 3 == broken;
      EXPECT_EQ(result.expert_ids[slot],
                is_broken ? static_cast<int32_t>(slot % 3) : clean.expert_ids[slot]);
      EXPECT_EQ(result.expert_weights[slot], is_broken ? 0.0f : clean.expert_weights[slot]);
    }
  }
  EXPECT_THAT(lines_, ElementsAre("[gating] 1 of 200 token(s) have no usable router logit (all "
                                  "NaN or masked); their experts are ids 0..2 with weight 0"));
}

TEST_P(GatingTest, PaddingRowsOfNanGetDistinctExperts) {
  const GatingResult result = Gate({{1, 2, 3, 4}, {kNan, kNan, kNan, kNan}}, {.top_k = 2});
  EXPECT_THAT(result.expert_ids, ElementsAre(3, 2, 0, 1));
  EXPECT_NEAR(result.expert_weights[0], 0.731059, kTolerance);
  EXPECT_NEAR(result.expert_weights[1], 0.268941, kTolerance);
}

TEST_P(GatingTest, SingleNansCountAsMasked) {
  ExpectRow({kNan, 1, kNan, 2}, {.top_k = 2}, {3, 1}, {0.731059, 0.268941});
  // More slots than usable experts: the rest are masked ones of weight 0, lowest ids first.
  ExpectRow({kNan, 1, -kInfinity, 2}, {.top_k = 4}, {3, 1, 0, 2}, {0.731059, 0.268941, 0, 0});
  ExpectRow({kNan, 1, -kInfinity, 2}, {.top_k = 3, .score_function = ScoreFunction::kSigmoid},
            {3, 1, 0}, {0.546449, 0.453551, 0});
}

TEST_P(GatingTest, MaskedLogitsHaveProbabilityZero) {
  ExpectRow({-kInfinity, 0, 0, -kInfinity}, {.top_k = 2, .renormalizes = false}, {1, 2},
            {0.5, 0.5});
  ExpectRow({-kInfinity, -1e30f, -kInfinity}, {.top_k = 1}, {1}, {1});
}

TEST_P(GatingTest, InfiniteLogitsShareAllTheWeight) {
  ExpectRow({1, kInfinity, 3, 2}, {.top_k = 2}, {1, 2}, {1, 0});
  ExpectRow({kInfinity, 5, kInfinity, kNan}, {.top_k = 3}, {0, 2, 1}, {0.5, 0.5, 0});
  ExpectRow({kInfinity, kInfinity, kInfinity, kInfinity}, {.top_k = 2, .renormalizes = false},
            {0, 1}, {0.25, 0.25});
  ExpectRow({0, kInfinity}, {.top_k = 2, .score_function = ScoreFunction::kSigmoid}, {1, 0},
            {1 / 1.5, 0.5 / 1.5});
}

TEST_P(GatingTest, TiesGoToTheLowerId) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    ExpectRow({1, 0, 0, 0}, {.top_k = 2}, {0, 1}, {0.731059, 0.268941});
    ExpectRow(std::vector<float>(8, 0.5f), {.top_k = 2}, {0, 1}, {0.5, 0.5});
    ExpectRow(std::vector<float>(8, 0.5f), {.top_k = 2, .renormalizes = false}, {0, 1},
              {0.125, 0.125});
    ExpectRow({0.0f, -0.0f, 0.0f}, {.top_k = 2}, {0, 1}, {0.5, 0.5});
    ExpectRow({-0.0f, 0.0f}, {.top_k = 2}, {0, 1}, {0.5, 0.5});
  }
}

// Large logits whose scores round to the same value are still told apart.
TEST_P(GatingTest, RoundingOfScoresMakesNoTies) {
  ExpectRow({20, 25, 30, 29.999998f}, {.top_k = 1, .score_function = ScoreFunction::kSigmoid}, {2},
            {1});
  ExpectRow({-200, -150, 0, -100}, {.top_k = 3}, {2, 3, 1}, {1, 0, 0});
}

TEST_P(GatingTest, ExpertsBeyondThe256thAreFound) {
  for (const size_t num_experts : {512u, 896u, 1024u}) {
    std::vector<float> logits(num_experts, 0.0f);
    std::vector<int32_t> winners(10);
    std::iota(winners.begin(), winners.end(), 300);
    for (size_t i = 0; i < winners.size(); ++i) {
      logits[static_cast<size_t>(winners[i])] = 5.0f - 0.1f * static_cast<float>(i);
    }
    EXPECT_EQ(Gate({logits}, {.top_k = 10}).expert_ids, winners);
    logits[num_experts - 1] = 9;
    EXPECT_EQ(Gate({logits}, {.top_k = 10}).expert_ids[0], static_cast<int32_t>(num_experts - 1));
  }
}

TEST_P(GatingTest, EveryExpertMayBeChosen) {
  ExpectRow({0, 1, 2, 3}, {.top_k = 4}, {3, 2, 1, 0}, {0.643914, 0.236883, 0.087144, 0.032059});
  ExpectRow({7}, {.top_k = 1}, {0}, {1});
  ExpectRow({7}, {.top_k = 1, .score_function = ScoreFunction::kSigmoid, .renormalizes = false},
            {0}, {0.999089});
}

TEST_P(GatingTest, NoTokensGiveNoSlots) {
  for (const int64_t num_experts : {6, 8}) {
    const GatingResult result = opst::Gate(
        context_, ConstTensorView(static_cast<const float*>(nullptr), Shape{0, num_experts}),
        {.top_k = 2});
    EXPECT_TRUE(result.expert_ids.empty() && result.expert_weights.empty());
    EXPECT_EQ(result.num_empty_rows, 0);
  }
}

// Scores sigmoid(0 … 3), selected with the bias, mixed without.
TEST_P(GatingTest, TheBiasSelectsButDoesNotMix) {
  const std::vector<float> bias = {3, 0, 0, 0};
  GatingOptions options{.top_k = 2, .score_function = ScoreFunction::kSigmoid};
  options.selection_bias = bias;
  ExpectRow({0, 1, 2, 3}, options, {0, 3}, {0.344217, 0.655783});
  options.scale = 2.5f;
  ExpectRow({0, 1, 2, 3}, options, {0, 3}, {0.860541, 1.639459});
}

TEST_P(GatingTest, ABiasDoesNotBringBackMaskedExperts) {
  const std::vector<float> bias = {100, 0, 100, 0};
  GatingOptions options{.top_k = 2, .score_function = ScoreFunction::kSigmoid};
  options.selection_bias = bias;
  ExpectRow({-kInfinity, 1, kNan, 2}, options, {3, 1}, {0.546449, 0.453551});
  options.score_function = ScoreFunction::kSoftmax;
  ExpectRow({-kInfinity, 1, kNan, 2}, options, {3, 1}, {0.731059, 0.268941});
}

TEST_P(GatingTest, TinyScoresSurviveALargeBias) {
  const std::vector<float> bias = {12, 12, 0, 0};
  GatingOptions options{.top_k = 2, .score_function = ScoreFunction::kSigmoid, .scale = 2.5f};
  options.selection_bias = bias;
  // 12 + 1.5e-8 and 12 + 4.1e-8 are one f32, so that the lower id comes first.
  ExpectRow({-18, -17, -30, -30}, options, {0, 1}, {0.672354, 1.827646});
  ExpectRow({-95, -94, -120, -120}, options, {0, 1}, {0.672354, 1.827646});
}

TEST_P(GatingTest, GroupsAreRankedByTheirTwoBest) {
  const std::vector<float> logits = {2.197225f, -2.197225f, -2.197225f, -2.197225f,
                                     0.847298f, 0.405465f,  -1.386294f, -2.197225f};
  GatingOptions options{.top_k = 2,
                        .score_function = ScoreFunction::kSigmoid,
                        .num_groups = 2,
                        .num_kept_groups = 1,
                        .group_score = GroupScore::kSumOfTopTwo};
  ExpectRow(logits, options, {4, 5}, {0.538462, 0.461538});
  options.group_score = GroupScore::kMax;
  ExpectRow(logits, options, {0, 1}, {0.9, 0.1});
}

TEST_P(GatingTest, GroupTiesGoToTheLowerGroup) {
  GatingOptions options{.top_k = 2, .num_groups = 4, .num_kept_groups = 2};
  ExpectRow({0, 1, 1, 0, 1, 0, 0, 1}, options, {1, 2}, {0.5, 0.5});
  options.num_kept_groups = 1;
  ExpectRow({0, 1, 1, 0, 1, 0, 0, 1}, options, {1, 0}, {0.731059, 0.268941});
}

TEST_P(GatingTest, KeptGroupsMayBeMaskedButOtherGroupsAreNeverChosen) {
  const GatingOptions options{.top_k = 3, .num_groups = 2, .num_kept_groups = 1};
  ExpectRow({0, 0, 0, 5, -kInfinity, kNan}, options, {3, 4, 5}, {1, 0, 0});
}

TEST_P(GatingTest, WithoutRenormalisationScoresAreProbabilitiesNotLogits) {
  ExpectRow({1, 2, 3, 4}, {.top_k = 2, .renormalizes = false}, {3, 2}, {0.643914, 0.236883});
  ExpectRow({-1, -2, -3, -4}, {.top_k = 2, .renormalizes = false}, {0, 1}, {0.643914, 0.236883});
}

// With renormalisation, softmax before and after the selection is the same.
TEST_P(GatingTest, RenormalisationEqualsSoftmaxOverTheChosen) {
  ExpectRow({1, 2, 3, 4}, {.top_k = 2}, {3, 2}, {0.731059, 0.268941});
}

TEST_P(GatingTest, ExtremeLogitsGiveFiniteWeights) {
  const std::vector<std::vector<float>> rows = {
      {1e30f, -1e30f, 0, 1},   {200, -200, 199, 0},       {-200, -201, -202, -203},
      {1e-45f, 0, -1e-45f, 0}, {3e38f, -3e38f, 3e38f, 0}, {-3e38f, -3e38f, -3e38f, -3e38f}};
  for (const ScoreFunction function : {ScoreFunction::kSoftmax, ScoreFunction::kSigmoid}) {
    for (const bool renormalizes : {false, true}) {
      const GatingResult result =
          Gate(rows, {.top_k = 4, .score_function = function, .renormalizes = renormalizes});
      EXPECT_EQ(result.num_empty_rows, 0);
      for (size_t slot = 0; slot < result.expert_weights.size(); ++slot) {
        EXPECT_TRUE(std::isfinite(result.expert_weights[slot])) << slot;
        EXPECT_GE(result.expert_weights[slot], 0.0f) << slot;
        EXPECT_LE(result.expert_weights[slot], 1.0f) << slot;
      }
    }
  }
}

// Each choice is weighed among the experts not chosen before it that are close to it. By hand, with
// epsilon 0.1: 2.0 sees 1.7 (distance 0.15) but not 1.5 (0.25); then 1.7 sees 1.5 (0.118).
TEST_P(GatingTest, SparsemixerWeighsEachChoiceAmongThoseCloseToIt) {
  GatingOptions options{.top_k = 2,
                        .score_function = ScoreFunction::kSparsemixer,
                        .sparsemixer_epsilon = 0.1f,
                        .renormalizes = false};
  const double first = 1 / (1 + std::exp(-0.3));
  const double second = 1 / (1 + std::exp(-0.2));
  ExpectRow({1.7f, -3, 2.0f, 1.5f}, options, {2, 0}, {first, second});
  // Distances are relative to the larger of |logit| and the best: all negative ones too.
  ExpectRow({-1.0f, -1.1f, -2.0f}, options, {0, 1}, {1 / (1 + std::exp(-0.1)), 1.0});
  ExpectRow({kInfinity, 1, kInfinity}, options, {0, 2}, {0.5, 1.0});
  ExpectRow({-kInfinity, 1, -kInfinity}, options, {1, 0}, {1.0, 0.0});
  ExpectRow({kNan, 1, 1}, options, {1, 2}, {0.5, 1.0});
  options.scale = 3;
  ExpectRow({1, -3}, options, {0, 1}, {3.0, 3.0});
}

TEST_P(GatingTest, TheRoutedScaleScalesEveryWeight) {
  const std::vector<float> logits = {0.3f, -1, 2, 0.5f, 1};
  const GatingResult one = Gate({logits}, {.top_k = 3});
  const GatingResult scaled = Gate({logits}, {.top_k = 3, .scale = 2.5f});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_FLOAT_EQ(scaled.expert_weights[i], 2.5f * one.expert_weights[i]);
  }
}

}  // namespace
}  // namespace opst
