// Sampling rules on small hand-made logits.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "opst/error.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int32_t Next(Sampler& sampler, std::vector<float> logits) { return sampler.Next(logits); }

// How often each token is drawn in `count` draws.
std::map<int32_t, int> Draws(const SamplingOptions& options, const std::vector<float>& logits,
                             int count) {
  Sampler sampler(options, static_cast<int64_t>(logits.size()));
  std::map<int32_t, int> draws;
  for (int i = 0; i < count; ++i) ++draws[Next(sampler, logits)];
  return draws;
}

TEST(SamplerTest, GreedyTakesTheHighestAndTiesGoToTheLowerId) {
  Sampler sampler({}, 3);
  EXPECT_EQ(Next(sampler, {1.0f, 3.0f, 2.0f}), 1);
  EXPECT_EQ(Next(sampler, {3.0f, 3.0f, 2.0f}), 0);
  EXPECT_EQ(Next(sampler, {kNan, -kInfinity, -2.0f}), 2);
}

TEST(SamplerTest, DrawsFollowTheSoftmaxOfTheTemperature) {
  constexpr int kCount = 20000;
  const std::vector<float> logits{0, std::log(3.0f) / 2, -kInfinity, kNan};
  auto draws = Draws({.temperature = 0.5f, .seed = 7}, logits, kCount);
  // At temperature 1/2 the odds are 1 : 3; 5 standard deviations of a binomial are 306.
  EXPECT_NEAR(draws[1], kCount * 3 / 4, 310);
  EXPECT_EQ(draws[0] + draws[1], kCount);
}

TEST(SamplerTest, TopKAndTopPKeepTheMostLikely) {
  const std::vector<float> logits{0, 1, 2, 3};
  for (const auto& [token, count] : Draws({.temperature = 5, .top_k = 2}, logits, 500)) {
    EXPECT_GE(token, 2);
  }
  // softmax = 0.032, 0.087, 0.237, 0.644: 0.644 alone does not reach 0.7, two do.
  const auto draws = Draws({.temperature = 1, .top_p = 0.7f}, logits, 500);
  EXPECT_EQ(draws.size(), 2u);
  EXPECT_EQ(draws.begin()->first, 2);
  EXPECT_EQ(Draws({.temperature = 1, .top_p = 0.01f}, logits, 50).size(), 1u);
}

TEST(SamplerTest, MinPIsRelativeToTheMostLikely) {
  // softmax = 0.032, 0.087, 0.237, 0.644: shares of the best are 0.050, 0.135, 0.368, 1.
  const std::vector<float> logits{0, 1, 2, 3};
  EXPECT_EQ(Draws({.temperature = 1, .min_p = 0.13f}, logits, 2000).size(), 3u);
  EXPECT_EQ(Draws({.temperature = 1, .min_p = 0.14f}, logits, 2000).size(), 2u);
  EXPECT_EQ(Draws({.temperature = 1, .min_p = 1}, logits, 100).size(), 1u);
}

// Oracle: the whole vocabulary sorted, probabilities added up one by one.
TEST(SamplerTest, TopPOfALargeVocabularyKeepsTheFewestThatReachIt) {
  constexpr size_t kVocabulary = 400;
  std::mt19937 random(4);
  std::vector<float> logits(kVocabulary);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000) * 0.002f;
  std::vector<std::pair<float, int32_t>> order;
  double sum = 0;
  for (size_t i = 0; i < kVocabulary; ++i) {
    order.emplace_back(-logits[i], static_cast<int32_t>(i));
    sum += std::exp(static_cast<double>(logits[i]));
  }
  std::sort(order.begin(), order.end());
  std::map<int32_t, bool> allowed;
  double reached = 0;
  for (size_t i = 0; reached < 0.4 * sum; ++i) {
    reached += std::exp(-static_cast<double>(order[i].first));
    allowed[order[i].second] = true;
  }
  const auto draws = Draws({.temperature = 1, .top_p = 0.4f}, logits, 4000);
  for (const auto& [token, count] : draws) EXPECT_TRUE(allowed.contains(token)) << token;
  // 4,000 draws among about 100 leave none out but by a chance of e^-30.
  EXPECT_EQ(draws.size(), allowed.size());
}

TEST(SamplerTest, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  Sampler sampler({.repetition_penalty = 2}, 4);
  sampler.SetPrompt(std::array{0, 3});
  std::vector<float> logits{4, 2.5f, -1, -1};
  EXPECT_EQ(sampler.Next(logits), 1);  // 4 / 2 < 2.5
  EXPECT_EQ(logits, (std::vector<float>{2, 2.5f, -1, -2}));
  logits = {4, 2.5f, -1, -1};
  EXPECT_EQ(sampler.Next(logits), 0);  // token 1 is seen now: 1.25
  EXPECT_EQ(logits, (std::vector<float>{2, 1.25f, -1, -2}));
}

TEST(SamplerTest, PresenceAndFrequencyCountNewTokensOnly) {
  Sampler sampler({.presence_penalty = 0.5f, .frequency_penalty = 0.25f}, 3);
  sampler.SetPrompt(std::array{2});
  std::vector<float> logits;
  for (int step = 0; step < 3; ++step) {
    logits = {1, 0, 0};
    sampler.Next(logits);
  }
  // Token 0 was drawn twice: 1, then 0.25; the third draw sees 1 - 0.5 - 0.25 · 2 = 0.
  EXPECT_EQ(logits, (std::vector<float>{0, 0, 0}));
}

TEST(SamplerTest, BiasMovesAndBans) {
  Sampler sampler({.logit_bias = {{0, -kInfinity}, {2, 5}}}, 3);
  EXPECT_EQ(Next(sampler, {100, 1, 0}), 2);
  EXPECT_EQ(Next(sampler, {100, 9, 0}), 1);
}

TEST(SamplerTest, OneSeedGivesOneSequence) {
  const std::vector<float> logits(50, 0.0f);
  Sampler first({.temperature = 1, .seed = 3}, 50);
  Sampler second({.temperature = 1, .seed = 3}, 50);
  Sampler other({.temperature = 1, .seed = 4}, 50);
  int differing = 0;
  for (int i = 0; i < 100; ++i) {
    const int32_t token = Next(first, logits);
    EXPECT_EQ(Next(second, logits), token);
    differing += Next(other, logits) != token ? 1 : 0;
  }
  EXPECT_GT(differing, 50);
}

TEST(SamplerTest, AnInfiniteLogitIsCertain) {
  Sampler sampler({.temperature = 1}, 3);
  EXPECT_EQ(Next(sampler, {0.0f, kInfinity, 5.0f}), 1);
}

TEST(SamplerTest, RefusesWrongOptionsAndBrokenLogits) {
  EXPECT_THROW(Sampler({.temperature = -1}, 3), Error);
  EXPECT_THROW(Sampler({.temperature = kNan}, 3), Error);
  EXPECT_THROW(Sampler({.top_k = -1}, 3), Error);
  EXPECT_THROW(Sampler({.top_p = 0}, 3), Error);
  EXPECT_THROW(Sampler({.top_p = 1.5f}, 3), Error);
  EXPECT_THROW(Sampler({.min_p = -0.1f}, 3), Error);
  EXPECT_THROW(Sampler({.min_p = 1.1f}, 3), Error);
  EXPECT_THROW(Sampler({.repetition_penalty = 0}, 3), Error);
  EXPECT_THROW(Sampler({.presence_penalty = kNan}, 3), Error);
  EXPECT_THROW(Sampler({.frequency_penalty = kInfinity}, 3), Error);
  EXPECT_THROW(Sampler({.logit_bias = {{3, 1}}}, 3), Error);
  EXPECT_THROW(Sampler({.logit_bias = {{-1, 1}}}, 3), Error);
  EXPECT_THROW(Sampler({.logit_bias = {{0, kNan}}}, 3), Error);
  EXPECT_THROW(Sampler({.logit_bias = {{0, kInfinity}}}, 3), Error);
  Sampler sampler({}, 3);
  EXPECT_THROW(Next(sampler, {kNan, kNan}), Error);
  EXPECT_THROW(Next(sampler, {-kInfinity}), Error);
}

}  // namespace
}  // namespace opst
