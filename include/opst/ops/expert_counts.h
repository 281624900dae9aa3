// Rows per expert in the forms that callers ask for: counts, running sums, pairs. No rows are
// moved.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_EXPERT_COUNTS_H_
#define OPST_OPS_EXPERT_COUNTS_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "opst/tensor.h"

namespace opst {

// counts[e] = number of ids equal to e
//   expert_ids  any shape, i32, contiguous; -1 counts nowhere, else 0 … E-1
// Errors (kInvalidArgument): E < 1; an id outside that range, named with its position.
// Source: CANN moe_compute_expert_tokens, which gives the running sums of these.
std::vector<int64_t> CountExperts(ConstTensorView expert_ids, int64_t num_experts);

// sums[e] = counts[0] + … + counts[e]
// Errors (kInvalidArgument): a negative count, or a sum above 2⁶³ - 1.
std::vector<int64_t> RunningSums(std::span<const int64_t> counts);

// (expert, count) of the experts that have rows, ascending.
std::vector<std::pair<int64_t, int64_t>> NonEmptyExperts(std::span<const int64_t> counts);

// Rows that arrive grouped by (source rank, expert), as they come out of an all-to-all, regrouped
// by (expert, source rank), as a grouped product needs them.
struct ReRouting {
  std::vector<int32_t> row_sources;    // [A] arriving row that stands at each place: SparseGather's
                                       // index for rows, scales and whatever belongs to a row
  std::vector<int64_t> expert_counts;  // [E] rows of all ranks
};
//   counts  [P, E] i32 or i64, rows may be strided: rows from rank p for expert e; A = their sum
// Cost: one pass over A rows and P·E counts. Runs on the calling thread.
// Errors (kInvalidArgument): shape or dtype that do not fit; a negative count; A ≥ 2³¹.
// Source: CANN moe_re_routing.
ReRouting BuildReRouting(ConstTensorView counts);

}  // namespace opst

#endif  // OPST_OPS_EXPERT_COUNTS_H_
