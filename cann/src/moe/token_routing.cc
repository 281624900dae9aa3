// Slots numbered token by token, sorted by expert; dropless, or with a capacity in slot order.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/moe/token_routing.h"

#include <algorithm>

#include "cann/src/moe/row_order.h"
#include "opst/ops/expert_counts.h"

namespace opst::cann {
namespace {

// Ids behind the last expert are finished tokens. Without a number of experts any id goes.
int64_t HighestId(const TokenRouting& routing) {
  return routing.num_experts > 0 ? routing.num_experts : kLargestId;
}

ExpandedRows RouteDropless(const Run& run, const TokenRouting& routing,
                           const TokenRoutingOperands& operands, const std::vector<int32_t>& ids) {
  const auto k = static_cast<int32_t>(run[operands.expert_ids].dim(1));
  RowOrder order = OrderById(run, ids);
  std::copy(order.slot_to_row.begin(), order.slot_to_row.end(),
            run.Span<int32_t>(operands.out_rows).begin());
  if (routing.wants_counts()) {
    order.counts.resize(static_cast<size_t>(routing.num_experts), 0);
    run.SetInts(operands.out_counts,
                routing.count_flag == 1 ? RunningSums(order.counts) : order.counts);
  }
  ExpandedRows rows;
  const auto num_rows = static_cast<size_t>(run[operands.out].dim(0));
  for (size_t row = 0; row < num_rows; ++row) {
    const int32_t slot = order.row_to_slot[row];
    rows.tokens.push_back(slot / k);
    rows.experts.push_back(ids[static_cast<size_t>(slot)]);
  }
  return rows;
}

ExpandedRows RouteWithCapacity(const Run& run, const TokenRouting& routing,
                               const TokenRoutingOperands& operands,
                               const std::vector<int32_t>& ids) {
  const auto k = static_cast<size_t>(run[operands.expert_ids].dim(1));
  const auto num_rows = static_cast<size_t>(routing.num_experts * routing.capacity);
  ExpandedRows rows{std::vector<int32_t>(num_rows, -1), std::vector<int32_t>(num_rows, 0)};
  std::vector<int64_t> counts(static_cast<size_t>(routing.num_experts), 0);
  const auto out_rows = run.Span<int32_t>(operands.out_rows);
  for (size_t slot = 0; slot < ids.size(); ++slot) {
    out_rows[slot] = -1;
    if (ids[slot] == routing.num_experts) continue;
    const int64_t place = counts[static_cast<size_t>(ids[slot])]++;
    if (place >= routing.capacity) continue;
    const int64_t row = ids[slot] * routing.capacity + place;
    out_rows[slot] = static_cast<int32_t>(row);
    rows.tokens[static_cast<size_t>(row)] = static_cast<int32_t>(slot / k);
    rows.experts[static_cast<size_t>(row)] = ids[slot];
  }
  if (routing.wants_all_counts()) run.SetInts(operands.out_all_counts, counts);
  return rows;
}

}  // namespace

int64_t CheckTokenRouting(const Call& call, const TokenRouting& routing,
                          const TokenRoutingOperands& operands) {
  call.RankIs(operands.x, 2);
  call.RankIs(operands.expert_ids, 2);
  const Operand& x = call[operands.x];
  const Operand& ids = call[operands.expert_ids];
  call.Shape(x.dim(0) == ids.dim(0), "x and expertIdx must have the same tokens", x.Describe(),
             " and ", ids.Describe());
  call.Shape(routing.active_num >= 0 && routing.capacity >= 0 && routing.num_experts >= 0,
             "activeNum, expertCapacity and expertNum must not be negative", routing.active_num,
             ", ", routing.capacity, ", ", routing.num_experts);
  call.Shape(routing.drop_pad_mode == 0 || routing.pads(), "dropPadMode must be 0 or 1",
             routing.drop_pad_mode);
  call.Shape(!routing.pads() || (routing.num_experts >= 1 && routing.capacity >= 1 &&
                                 routing.capacity <= x.dim(0) &&
                                 routing.num_experts <= INT32_MAX / routing.capacity),
             "with dropPadMode 1 there must be an expert, and a capacity of 1 to the tokens",
             routing.num_experts, " experts, capacity ", routing.capacity);
  call.Shape(routing.count_flag >= 0 && routing.count_flag <= 2,
             "expertTokensCountOrCumsumFlag must be 0, 1 or 2", routing.count_flag);
  call.Shape(routing.count_flag == 0 || routing.num_experts > 0,
             "expertNum must be positive to count rows", routing.num_experts);
  const int64_t slots = ids.dim(0) * ids.dim(1);
  call.ShapeIs(operands.out_rows, {slots});
  if (routing.wants_counts()) call.ShapeIs(operands.out_counts, {routing.num_experts});
  if (routing.wants_all_counts()) call.ShapeIs(operands.out_all_counts, {routing.num_experts});
  if (routing.pads()) {
    call.ShapeIs(operands.out, {routing.num_experts, routing.capacity, x.dim(1)});
    return routing.num_experts * routing.capacity;
  }
  const int64_t rows = routing.active_num == 0 ? slots : std::min(slots, routing.active_num);
  call.ShapeIs(operands.out, {rows, x.dim(1)});
  return rows;
}

ExpandedRows RouteTokens(const Run& run, const TokenRouting& routing,
                         const TokenRoutingOperands& operands) {
  const auto ids = run.Indices(operands.expert_ids, 0, HighestId(routing));
  return routing.pads() ? RouteWithCapacity(run, routing, operands, ids)
                        : RouteDropless(run, routing, operands, ids);
}

}  // namespace opst::cann
