// Rows per expert as counts, running sums and pairs, and re-routing. No rows are moved.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_EXPERT_COUNTS_H_
#define OPST_C_EXPERT_COUNTS_H_

#include "opst/c/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// expert_ids of any shape, i32, contiguous, -1 counts nowhere -> counts [E] i64.
OPST_API opst_status opst_count_experts(const opst_view* expert_ids, const opst_view* counts);

// counts [E] i64 -> sums [E] i64, sums[e] = counts[0] + ... + counts[e].
OPST_API opst_status opst_running_sums(const opst_view* counts, const opst_view* sums);

// counts [E] i64 -> the experts that have rows, ascending, and their counts: the first num_pairs
// elements of experts [E] i64 and pair_counts [E] i64; the others are not written.
OPST_API opst_status opst_non_empty_experts(const opst_view* counts, const opst_view* experts,
                                            const opst_view* pair_counts, int64_t* num_pairs);

// counts [P, E] i32 or i64, rows from rank p for expert e -> expert_counts [E] i64, and for each of
// the num_rows places in (expert, rank) order the arriving row that stands there. row_sources is
// the caller's: opst_free.
OPST_API opst_status opst_build_re_routing(const opst_view* counts, const opst_view* expert_counts,
                                           int32_t** row_sources, int64_t* num_rows);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_EXPERT_COUNTS_H_
