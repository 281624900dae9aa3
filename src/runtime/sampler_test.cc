// Sampling rules on small hand-made logits.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "opst/error.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// How often each token is drawn in `count` draws.
std::map<int32_t, int> Draws(const SamplingOptions& options, const std::vector<float>& logits,
                             int count) {
  Sampler sampler(options);
  std::map<int32_t, int> draws;
  for (int i = 0; i < count; ++i) ++draws[sampler.Next(logits)];
  return draws;
}

TEST(SamplerTest, GreedyTakesTheHighestAndTiesGoToTheLowerId) {
  Sampler sampler({});
  EXPECT_EQ(sampler.Next(std::array{1.0f, 3.0f, 2.0f}), 1);
  EXPECT_EQ(sampler.Next(std::array{3.0f, 3.0f, 2.0f}), 0);
  EXPECT_EQ(sampler.Next(std::array{kNan, -kInfinity, -2.0f}), 2);
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

TEST(SamplerTest, OneSeedGivesOneSequence) {
  const std::vector<float> logits(50, 0.0f);
  Sampler first({.temperature = 1, .seed = 3});
  Sampler second({.temperature = 1, .seed = 3});
  Sampler other({.temperature = 1, .seed = 4});
  int differing = 0;
  for (int i = 0; i < 100; ++i) {
    const int32_t token = first.Next(logits);
    EXPECT_EQ(second.Next(logits), token);
    differing += other.Next(logits) != token ? 1 : 0;
  }
  EXPECT_GT(differing, 50);
}

TEST(SamplerTest, AnInfiniteLogitIsCertain) {
  Sampler sampler({.temperature = 1});
  EXPECT_EQ(sampler.Next(std::array{0.0f, kInfinity, 5.0f}), 1);
}

TEST(SamplerTest, RefusesWrongOptionsAndBrokenLogits) {
  EXPECT_THROW(Sampler({.temperature = -1}), Error);
  EXPECT_THROW(Sampler({.temperature = kNan}), Error);
  EXPECT_THROW(Sampler({.top_k = -1}), Error);
  EXPECT_THROW(Sampler({.top_p = 0}), Error);
  EXPECT_THROW(Sampler({.top_p = 1.5f}), Error);
  Sampler sampler({});
  EXPECT_THROW(sampler.Next(std::array{kNan, kNan}), Error);
  EXPECT_THROW(sampler.Next(std::array{-kInfinity}), Error);
}

}  // namespace
}  // namespace opst
