// Tests of hash routing: the table, the frozen hash, evenness, padding, and what is refused.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/hash_routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"

namespace opst {
namespace {

using testing::ElementsAre;

class HashRoutingTest : public testing::Test {
 protected:
  RoutingPlan Route(const std::vector<int32_t>& tokens, const HashRoutingOptions& options) {
    const Shape shape{static_cast<int64_t>(tokens.size())};
    return RouteByHash(context_, ConstTensorView(tokens.data(), shape), options);
  }
  std::string Reject(const std::vector<int32_t>& tokens, const HashRoutingOptions& options) {
    return Rejection([&] { Route(tokens, options); });
  }

  const Context context_ = MakeContext(1);
};

TEST_F(HashRoutingTest, ATableNamesTheExpertsOfATokenId) {
  const std::vector<int32_t> table = {0, 1, 2, 0, 1, 2};
  const RoutingPlan plan = Route({2, 0, -1, 1}, {.num_experts = 3, .top_k = 2, .table = table});
  EXPECT_THAT(plan.expert_ids, ElementsAre(1, 2, 0, 1, -1, -1, 2, 0));
  EXPECT_THAT(plan.expert_weights, ElementsAre(0.5f, 0.5f, 0.5f, 0.5f, 0, 0, 0.5f, 0.5f));
  EXPECT_THAT(plan.expert_counts, ElementsAre(2, 2, 2));
}

TEST_F(HashRoutingTest, TheHashIsFrozen) {
  const std::vector<int32_t> ids =
      Route({0, 1, 2, 3, 50000}, {.num_experts = 8, .top_k = 2, .seed = 7}).expert_ids;
  EXPECT_EQ(ids, (std::vector<int32_t>{5, 4, 1, 3, 6, 1, 7, 5, 1, 6}));
}

TEST_F(HashRoutingTest, ExpertsAreDistinctEvenAndOnlyOfIdAndSeed) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    const auto num_experts = static_cast<int64_t>(random() % 20 + 1);
    const auto top_k = static_cast<int64_t>(random() % static_cast<uint32_t>(num_experts)) + 1;
    const HashRoutingOptions options{.num_experts = num_experts, .top_k = top_k, .seed = random()};
    const auto token = static_cast<int32_t>(random() >> 1);
    const RoutingPlan plan = Route({token, 5, token}, options);
    const auto first = plan.expert_ids.begin();
    EXPECT_TRUE(std::equal(first, first + top_k, first + 2 * top_k));
    const std::set<int32_t> distinct(first, first + top_k);
    ASSERT_EQ(static_cast<int64_t>(distinct.size()), top_k);
    ASSERT_GE(*distinct.begin(), 0);
    ASSERT_LT(*distinct.rbegin(), num_experts);
  }
  std::vector<int32_t> vocabulary(30000);
  std::iota(vocabulary.begin(), vocabulary.end(), 0);
  const RoutingPlan plan = Route(vocabulary, {.num_experts = 6, .top_k = 2, .seed = 3});
  // Binomial, n 30000, p 1/3: standard deviation 81.6.
  for (const int64_t count : plan.expert_counts)
    EXPECT_NEAR(static_cast<double>(count), 10000, 5 * 82);
}

TEST_F(HashRoutingTest, NoTokensGiveAnEmptyPlan) {
  const RoutingPlan plan = Route({}, {.num_experts = 4, .top_k = 4});
  EXPECT_EQ(plan.num_tokens, 0);
  EXPECT_EQ(plan.num_rows(), 0);
}

TEST_F(HashRoutingTest, RefusesWhatIsNoTableAndNoToken) {
  const std::vector<int32_t> table = {0, 1, 2, 1};
  EXPECT_EQ(Reject({0}, {.num_experts = 3, .top_k = 3, .table = table}),
            "[hash_routing] the table must have top_k ids per token; got 4 for top_k 3");
  EXPECT_EQ(Reject({0}, {.num_experts = 2, .top_k = 2, .table = table}),
            "[hash_routing] experts of the table must be 0..1; got 2 at [1,0]");
  const std::vector<int32_t> twice = {0, 1, 2, 2};
  EXPECT_EQ(Reject({0}, {.num_experts = 3, .top_k = 2, .table = twice}),
            "[hash_routing] experts of a token must be distinct; got 2 twice for token 1");
  EXPECT_EQ(Reject({1, 2}, {.num_experts = 3, .top_k = 2, .table = table}),
            "[hash_routing] token ids must be -1 or stand in the table; got 2 at [1] for 2 rows");
  EXPECT_EQ(Reject({-2}, {.num_experts = 3}),
            "[hash_routing] token ids must be -1 or stand in the table; got -2 at [0] for 0 rows");
  EXPECT_EQ(Reject({0}, {.num_experts = 3, .top_k = 4}),
            "[hash_routing] top_k must be between 1 and the number of experts, below 2^31; got "
            "top_k 4 of 3 experts");
  const std::vector<float> floats(3);
  EXPECT_EQ(Rejection([&] {
              RouteByHash(context_, ConstTensorView(floats.data(), Shape{3}), {.num_experts = 2});
            }),
            "[hash_routing] token_ids must be contiguous [T] i32; got [3] f32");
}

}  // namespace
}  // namespace opst
