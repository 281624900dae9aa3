// Greedy packing and replication, node by node.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/expert_placement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "expert_placement";

void CheckRequest(std::span<const double> loads, const ExpertPlacementOptions& options) {
  const auto num_experts = static_cast<int64_t>(loads.size());
  const auto& [slots, ranks, nodes, groups] = options;
  OPST_CHECK_ARG(num_experts >= 1, kOp, "there must be loads of experts", "none");
  OPST_CHECK_ARG(ranks >= 1 && nodes >= 1 && groups >= 1, kOp,
                 "ranks, nodes and groups must be positive", ranks, ", ", nodes, " and ", groups);
  OPST_CHECK_ARG(slots >= num_experts && slots <= std::numeric_limits<int32_t>::max(), kOp,
                 "every expert needs a slot, and slots are counted in 31 bits", slots, " for ",
                 num_experts, " experts");
  OPST_CHECK_ARG(slots % ranks == 0, kOp, "slots must be divisible by ranks", slots, " by ", ranks);
  OPST_CHECK_ARG(ranks % nodes == 0, kOp, "ranks must be divisible by nodes", ranks, " by ", nodes);
  OPST_CHECK_ARG(num_experts % groups == 0, kOp, "experts must be divisible by groups", num_experts,
                 " by ", groups);
  for (size_t expert = 0; expert < loads.size(); ++expert) {
    OPST_CHECK_ARG(std::isfinite(loads[expert]) && loads[expert] >= 0, kOp,
                   "loads must be finite and not negative", loads[expert], " of expert ", expert);
  }
}

// Deals items out to `num_packs` packs of as many items each, the heaviest first, each to the
// lightest pack with room. Returns the items of pack 0, then those of pack 1, … in the order they
// came. One item a pack stays where it is.
std::vector<size_t> Pack(std::span<const double> weights, size_t num_packs) {
  const size_t items_per_pack = weights.size() / num_packs;
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (items_per_pack == 1) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  std::vector<double> pack_weights(num_packs);
  std::vector<size_t> pack_items(num_packs);
  std::vector<size_t> placed(weights.size());
  for (const size_t item : order) {
    size_t best = num_packs;
    for (size_t pack = 0; pack < num_packs; ++pack) {
      if (pack_items[pack] == items_per_pack) continue;
      if (best == num_packs || pack_weights[pack] < pack_weights[best]) best = pack;
    }
    placed[best * items_per_pack + pack_items[best]++] = item;
    pack_weights[best] += weights[item];
  }
  return placed;
}

// A copy of an item: the item, and which copy of it.
struct Copy {
  size_t item;
  int32_t index;
};

// `num_slots` copies: one of each item, and one more for every spare slot of the item that has the
// most load per copy.
std::vector<Copy> Replicate(std::span<const double> weights, size_t num_slots) {
  std::vector<Copy> copies;
  std::vector<int32_t> counts(weights.size(), 1);
  for (size_t item = 0; item < weights.size(); ++item) copies.push_back({item, 0});
  while (copies.size() < num_slots) {
    size_t busiest = 0;
    for (size_t item = 1; item < weights.size(); ++item) {
      if (weights[item] / counts[item] > weights[busiest] / counts[busiest]) busiest = item;
    }
    copies.push_back({busiest, counts[busiest]++});
  }
  return copies;
}

// Experts in the order of nodes: whole groups, packed by their load.
std::vector<size_t> ExpertsByNode(std::span<const double> loads, size_t num_groups,
                                  size_t num_nodes) {
  const size_t group_size = loads.size() / num_groups;
  std::vector<double> group_loads(num_groups);
  for (size_t expert = 0; expert < loads.size(); ++expert) {
    group_loads[expert / group_size] += loads[expert];
  }
  std::vector<size_t> experts;
  for (const size_t group : Pack(group_loads, num_nodes)) {
    for (size_t i = 0; i < group_size; ++i) experts.push_back(group * group_size + i);
  }
  return experts;
}

// Fills the slots of one node with its experts.
void PlaceOnRanks(std::span<const double> loads, std::span<const size_t> experts, size_t num_slots,
                  size_t num_ranks, ExpertPlacement& placement) {
  std::vector<double> weights;
  for (const size_t expert : experts) weights.push_back(loads[expert]);
  const std::vector<Copy> copies = Replicate(weights, num_slots);
  std::vector<int32_t> counts(experts.size());
  for (const Copy& copy : copies) ++counts[copy.item];
  std::vector<double> copy_weights;
  for (const Copy& copy : copies) copy_weights.push_back(weights[copy.item] / counts[copy.item]);
  for (const size_t slot : Pack(copy_weights, num_ranks)) {
    const Copy& copy = copies[slot];
    placement.expert_of_slot.push_back(static_cast<int32_t>(experts[copy.item]));
    placement.copy_of_slot.push_back(copy.index);
    placement.num_copies[experts[copy.item]] = counts[copy.item];
  }
}

}  // namespace

ExpertPlacement PlanExpertPlacement(std::span<const double> loads,
                                    const ExpertPlacementOptions& options) {
  CheckRequest(loads, options);
  const bool keeps_groups = options.num_groups % options.num_nodes == 0;
  const auto num_nodes = static_cast<size_t>(keeps_groups ? options.num_nodes : 1);
  const auto num_groups = static_cast<size_t>(keeps_groups ? options.num_groups : 1);
  const std::vector<size_t> experts = ExpertsByNode(loads, num_groups, num_nodes);
  const size_t experts_per_node = experts.size() / num_nodes;
  ExpertPlacement placement;
  placement.num_copies.resize(loads.size());
  for (size_t node = 0; node < num_nodes; ++node) {
    PlaceOnRanks(loads, std::span(experts).subspan(node * experts_per_node, experts_per_node),
                 static_cast<size_t>(options.num_slots) / num_nodes,
                 static_cast<size_t>(options.num_ranks) / num_nodes, placement);
  }
  return placement;
}

}  // namespace opst
