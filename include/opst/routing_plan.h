// RoutingPlan: which token goes to which expert with what weight, and in which row. Data and its
// construction only; no routing rule.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_ROUTING_PLAN_H_
#define OPST_ROUTING_PLAN_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "opst/context.h"
#include "opst/tensor.h"

namespace opst {

// The one description of a routed batch that every operator reads. T tokens, k slots a token, E
// experts, R rows; slot = t·k + j, row = position in expert-sorted order. As CSR its rows are the
// experts and its columns the slots.
struct RoutingPlan {
  int64_t num_tokens = 0;   // T
  int64_t num_experts = 0;  // E
  int64_t top_k = 0;        // k

  std::vector<int32_t> expert_ids;      // [T,k]  -1 = this slot has no row
  std::vector<float> expert_weights;    // [T,k]  0 where there is no row
  std::vector<int64_t> expert_counts;   // [E]    rows in use
  std::vector<int64_t> expert_offsets;  // [E+1]  first row of each expert; [E] = R
  std::vector<int32_t> row_to_slot;     // [R]    -1 = padding row
  std::vector<int32_t> slot_to_row;     // [T·k]  -1 = none

  int64_t num_dropped = 0;     // slots dropped because their expert was full
  int64_t num_empty_rows = 0;  // tokens without a usable logit: ids 0 … k-1, weights 0

  int64_t num_rows() const { return static_cast<int64_t>(row_to_slot.size()); }
};

// Consecutive experts [begin, end); 0 and 0 = all.
struct ExpertRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Who comes first when an expert is full.
enum class DropOrder : uint8_t {
  kByChoice,  // all first choices in token order, then all second choices, … (GShard)
  kByToken,   // tokens in order, whatever choice the expert is of them (DeepSpeed "position")
  kByWeight,  // the largest weights; equal ones by token, NaN last (DeepSpeed "probs")
};

struct RoutingPlanOptions {
  // Rows an expert may take: min(T, max(min_capacity, ceil(capacity_factor · T · k / E))).
  // 0 = dropless. Who stays where an expert is full, drop_order says.
  double capacity_factor = 0;
  int64_t min_capacity = 0;
  // Whether every expert's range is filled up to the capacity with padding rows ("drop/pad").
  bool pads_to_capacity = false;
  // Only slots of these experts get rows, all others become -1: the share of one rank. Slots of
  // other experts take no capacity and count neither as rows nor as dropped.
  ExpertRange active_experts = {};
  // Not 0 = tokens that are no tokens: their slots are emptied, and T of the capacity does not
  // count them; [T] or empty.
  std::span<const uint8_t> is_padding = {};
  DropOrder drop_order = DropOrder::kByChoice;
};

// Stable counting sort of the slots by expert: rows of one expert stand in ascending slot order.
//   expert_ids      [T, k] i32, contiguous; -1 = no row, else 0 … E-1
//   expert_weights  [T, k] f32, contiguous
// Cost: a few passes over T·k slots and one over E; kByWeight sorts the slots. Runs on the calling
// thread. Errors (kInvalidArgument): an id outside -1 … E-1, naming id and position; shapes that
// differ; T·k or E·capacity ≥ 2³¹; padding without a capacity; a capacity factor that is negative
// or NaN; active experts that are no range within 0 … E; is_padding of another length than T.
RoutingPlan BuildRoutingPlan(const Context& context, ConstTensorView expert_ids,
                             ConstTensorView expert_weights, int64_t num_experts,
                             const RoutingPlanOptions& options = {});
// The same from arrays that become the plan's own, so that nothing of size T·k is copied.
// One more error: arrays whose lengths differ or are no multiple of top_k.
RoutingPlan BuildRoutingPlan(const Context& context, std::vector<int32_t> expert_ids,
                             std::vector<float> expert_weights, int64_t top_k, int64_t num_experts,
                             const RoutingPlanOptions& options = {});

// The plan of a routing map: map[t,e] != 0 sends token t to expert e. k is the largest number of
// experts of a token (at least 1); a token's experts stand in its slots in ascending order, the
// rest of its slots are -1.
//   routing_map  [T, E] bool, u8 or i8; rows may be strided
//   weights      [T, E] f32; rows may be strided; or an empty view: all 1
// Errors (kInvalidArgument): shapes or dtypes that do not fit; those of BuildRoutingPlan.
RoutingPlan BuildRoutingPlanFromMap(const Context& context, ConstTensorView routing_map,
                                    ConstTensorView weights,
                                    const RoutingPlanOptions& options = {});

// The plan as a CSR matrix, experts x slots, for the eye: one line an expert with its rows as
// token.choice:weight, padding rows as "-", at most `max_entries` of them and then how many follow.
//   expert 0 [0,3): 0.1:0.25 2.0:0.5 -
std::string FormatAsCsr(const RoutingPlan& plan, int64_t max_entries = 16);

}  // namespace opst

#endif  // OPST_ROUTING_PLAN_H_
