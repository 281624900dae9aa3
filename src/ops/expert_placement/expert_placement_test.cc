// Tests of the placement of experts: published plans, invariants of random ones, ties, and errors.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/expert_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/testing/errors.h"

namespace opst {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The example of DeepSeek's published balancer: 12 experts, 16 slots, 8 ranks on 2 nodes.
const std::vector<double> kFirst = {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
const std::vector<double> kSecond = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};

std::vector<double> RankLoads(const std::vector<double>& loads, const ExpertPlacement& placement,
                              int64_t num_ranks) {
  std::vector<double> sums(static_cast<size_t>(num_ranks));
  const size_t slots_per_rank = placement.expert_of_slot.size() / sums.size();
  for (size_t slot = 0; slot < placement.expert_of_slot.size(); ++slot) {
    const auto expert = static_cast<size_t>(placement.expert_of_slot[slot]);
    sums[slot / slots_per_rank] += loads[expert] / placement.num_copies[expert];
  }
  return sums;
}

TEST(ExpertPlacementTest, GroupsStayOnNodesAsInThePublishedPlan) {
  const ExpertPlacementOptions options{
      .num_slots = 16, .num_ranks = 8, .num_nodes = 2, .num_groups = 4};
  const ExpertPlacement first = PlanExpertPlacement(kFirst, options);
  EXPECT_THAT(first.expert_of_slot, ElementsAre(5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1));
  EXPECT_THAT(first.num_copies, ElementsAre(1, 2, 1, 1, 2, 2, 1, 1, 1, 1, 2, 1));
  EXPECT_THAT(RankLoads(kFirst, first, 8),
              ElementsAre(121.5, 86.5, 125, 113, 147.5, 131.5, 156, 152));
  const ExpertPlacement second = PlanExpertPlacement(kSecond, options);
  EXPECT_THAT(second.expert_of_slot, ElementsAre(7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1));
  EXPECT_THAT(second.num_copies, ElementsAre(1, 2, 1, 1, 1, 2, 2, 1, 2, 1, 1, 1));
  EXPECT_THAT(RankLoads(kSecond, second, 8),
              ElementsAre(173, 179.5, 120.5, 172, 123, 152, 118.5, 117.5));
}

TEST(ExpertPlacementTest, GroupsThatNodesCannotShareGoAnywhereAsInThePublishedPlan) {
  const ExpertPlacementOptions options{
      .num_slots = 16, .num_ranks = 8, .num_nodes = 2, .num_groups = 3};
  EXPECT_THAT(PlanExpertPlacement(kFirst, options).expert_of_slot,
              ElementsAre(10, 6, 10, 7, 0, 2, 11, 4, 5, 9, 5, 4, 8, 3, 1, 1));
  EXPECT_THAT(PlanExpertPlacement(kSecond, options).expert_of_slot,
              ElementsAre(1, 10, 2, 4, 5, 11, 5, 0, 6, 7, 6, 3, 8, 8, 9, 7));
}

struct Case {
  std::vector<double> loads;
  ExpertPlacementOptions options;
};

Case RandomCase(std::mt19937& random) {
  const auto up_to = [&](int64_t most) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  Case result;
  result.options.num_nodes = up_to(3);
  result.options.num_ranks = result.options.num_nodes * up_to(4);
  result.options.num_groups = up_to(4);
  const int64_t num_experts = result.options.num_groups * up_to(8);
  const int64_t least = (num_experts + result.options.num_ranks - 1) / result.options.num_ranks;
  result.options.num_slots = result.options.num_ranks * (least + up_to(3) - 1);
  for (int64_t i = 0; i < num_experts; ++i) {
    result.loads.push_back(random() % 4 == 0 ? 0 : static_cast<double>(random() % 1000));
  }
  return result;
}

TEST(ExpertPlacementTest, EveryExpertHasItsCopiesAndGroupsTheirNode) {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const auto [loads, options] = RandomCase(random);
    const ExpertPlacement placement = PlanExpertPlacement(loads, options);
    ASSERT_EQ(placement.expert_of_slot.size(), static_cast<size_t>(options.num_slots));
    std::vector<std::vector<int32_t>> copies(loads.size());
    std::vector<int64_t> node_of_group(static_cast<size_t>(options.num_groups), -1);
    const int64_t slots_per_node = options.num_slots / options.num_nodes;
    const auto group_size = static_cast<int64_t>(loads.size()) / options.num_groups;
    for (int64_t slot = 0; slot < options.num_slots; ++slot) {
      const int32_t expert = placement.expert_of_slot[static_cast<size_t>(slot)];
      copies[static_cast<size_t>(expert)].push_back(
          placement.copy_of_slot[static_cast<size_t>(slot)]);
      int64_t& node = node_of_group[static_cast<size_t>(expert / group_size)];
      if (node < 0) node = slot / slots_per_node;
      if (options.num_groups % options.num_nodes == 0) {
        ASSERT_EQ(slot / slots_per_node, node) << "group of expert " << expert;
      }
    }
    for (size_t expert = 0; expert < copies.size(); ++expert) {
      std::sort(copies[expert].begin(), copies[expert].end());
      ASSERT_EQ(copies[expert].size(), static_cast<size_t>(placement.num_copies[expert]));
      ASSERT_GE(copies[expert].size(), 1u);
      for (size_t copy = 0; copy < copies[expert].size(); ++copy) {
        ASSERT_EQ(copies[expert][copy], static_cast<int32_t>(copy));
      }
    }
    // No spare slot would have helped another expert more.
    if (options.num_nodes > 1 && options.num_groups % options.num_nodes == 0) continue;
    const auto share = [&](size_t expert, int32_t count) { return loads[expert] / count; };
    for (size_t a = 0; a < loads.size(); ++a) {
      if (placement.num_copies[a] == 1) continue;
      for (size_t b = 0; b < loads.size(); ++b) {
        ASSERT_GE(share(a, placement.num_copies[a] - 1), share(b, placement.num_copies[b]));
      }
    }
  }
}

TEST(ExpertPlacementTest, EqualLoadsGoToTheLowerId) {
  const std::vector<double> loads(4, 1.0);
  const ExpertPlacement placement = PlanExpertPlacement(loads, {.num_slots = 6, .num_ranks = 3});
  EXPECT_THAT(placement.num_copies, ElementsAre(2, 2, 1, 1));
  EXPECT_THAT(placement.expert_of_slot, ElementsAre(2, 0, 3, 1, 0, 1));
}

TEST(ExpertPlacementTest, WhatCannotBePlacedIsRefused) {
  const auto refusal = [](std::vector<double> loads, ExpertPlacementOptions options) {
    return Rejection([&] { (void)PlanExpertPlacement(loads, options); });
  };
  EXPECT_THAT(refusal({}, {.num_slots = 1}), HasSubstr("there must be loads of experts"));
  EXPECT_THAT(refusal({1, 2}, {.num_slots = 1}), HasSubstr("got 1 for 2 experts"));
  EXPECT_THAT(refusal({1, 2}, {.num_slots = 3, .num_ranks = 2}), HasSubstr("got 3 by 2"));
  EXPECT_THAT(refusal({1, 2}, {.num_slots = 3, .num_ranks = 3, .num_nodes = 2}),
              HasSubstr("ranks must be divisible by nodes; got 3 by 2"));
  EXPECT_THAT(refusal({1, 2, 3}, {.num_slots = 3, .num_groups = 2}),
              HasSubstr("experts must be divisible by groups; got 3 by 2"));
  EXPECT_THAT(refusal({1, 2}, {.num_slots = 2, .num_ranks = 0}), HasSubstr("must be positive"));
  EXPECT_THAT(refusal({1, -2}, {.num_slots = 2}), HasSubstr("got -2 of expert 1"));
  EXPECT_THAT(refusal({std::numeric_limits<double>::quiet_NaN()}, {.num_slots = 2}),
              HasSubstr("finite"));
}

}  // namespace
}  // namespace opst
