// Which rank holds which expert, hot ones several times: from the load of experts to slots of
// ranks. A plan only; nothing is moved.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_EXPERT_PLACEMENT_H_
#define OPST_OPS_EXPERT_PLACEMENT_H_

#include <cstdint>
#include <span>
#include <vector>

namespace opst {

struct ExpertPlacementOptions {
  int64_t num_slots = 0;  // R of all ranks, at least E: each holds one copy of an expert
  int64_t num_ranks = 1;  // D; rank d has slots d·R/D …
  int64_t num_nodes = 1;  // N; node n has ranks n·D/N …
  // Experts stand in G equal consecutive groups, of which a token chooses few (GatingOptions). When
  // N divides G, a group's experts stay on one node, so that a token's rows cross few links;
  // otherwise every expert may stand anywhere.
  int64_t num_groups = 1;
};

struct ExpertPlacement {
  std::vector<int32_t> expert_of_slot;  // [R]
  std::vector<int32_t> copy_of_slot;    // [R] which copy of its expert, from 0
  std::vector<int32_t> num_copies;      // [E], at least 1 each
};

// Balances loads over ranks, when a copy takes load / num_copies of its expert:
//   1. groups are packed onto nodes, the heaviest first, each to the lightest node with room;
//   2. on each node spare slots go one by one to the expert with the most load per copy;
//   3. copies are packed onto the node's ranks as groups were onto nodes.
// Equal loads go to the lower id, and to the lower node or rank: the same input gives the same plan
// everywhere.
//   loads  [E] of each expert, in any unit: rows of a RoutingPlan, or LoadTracker::Save
// Cost: O(E·G + (R - E)·E + R·D), on the calling thread.
// Errors (kInvalidArgument): loads that are negative, NaN or Inf; R < E; R not divisible by D, D by
// N, E by G.
// Source: DeepSeek-V3 technical report, arXiv:2412.19437, redundant experts.
ExpertPlacement PlanExpertPlacement(std::span<const double> loads,
                                    const ExpertPlacementOptions& options);

}  // namespace opst

#endif  // OPST_OPS_EXPERT_PLACEMENT_H_
