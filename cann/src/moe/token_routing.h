// What moe_init_routing_v2 and its quantised form share: attributes, their checks, and the routing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_MOE_TOKEN_ROUTING_H_
#define OPST_CANN_MOE_TOKEN_ROUTING_H_

#include <cstdint>

#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/moe/init_routing_rows.h"

namespace opst::cann {

struct TokenRouting {
  int64_t active_num;  // rows that expandedX has at most, 0 = all
  int64_t capacity;
  int64_t num_experts;
  int64_t drop_pad_mode;  // 0 dropless, 1 every expert has `capacity` rows
  int64_t count_flag;     // 0 nothing, 1 running sums, 2 counts
  bool counts_before_capacity;

  bool pads() const { return drop_pad_mode == 1; }
  bool wants_counts() const { return !pads() && count_flag != 0; }
  bool wants_all_counts() const { return pads() && counts_before_capacity; }
};

struct TokenRoutingOperands {
  Index x = kAbsent;
  Index expert_ids = kAbsent;
  Index out = kAbsent;
  Index out_rows = kAbsent;
  Index out_counts = kAbsent;
  Index out_all_counts = kAbsent;
};

// All checks but those of dtypes. Returns the rows of expandedX, padding included.
int64_t CheckTokenRouting(const Call& call, const TokenRouting& routing,
                          const TokenRoutingOperands& operands);

// Writes row numbers and counts; returns where the rows of expandedX come from.
ExpandedRows RouteTokens(const Run& run, const TokenRouting& routing,
                         const TokenRoutingOperands& operands);

}  // namespace opst::cann

#endif  // OPST_CANN_MOE_TOKEN_ROUTING_H_
