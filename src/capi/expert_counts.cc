// Rows per expert in several forms, and re-routing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/expert_counts.h"

#include "capi/conversions.h"

using opst::capi::Call;
using opst::capi::Make;
using opst::capi::Run;

opst_status opst_count_experts(const opst_view* expert_ids, const opst_view* counts) {
  return Run(__func__, [&](const Call& call) {
    const auto out = call.OutValues<int64_t>(counts, "counts");
    const auto result =
        opst::CountExperts(call.In(expert_ids, "expert_ids"), static_cast<int64_t>(out.size()));
    std::copy(result.begin(), result.end(), out.begin());
  });
}

opst_status opst_running_sums(const opst_view* counts, const opst_view* sums) {
  return Run(__func__, [&](const Call& call) {
    call.Copy<int64_t>(opst::RunningSums(call.Values<int64_t>(counts, "counts")), sums, "sums");
  });
}

opst_status opst_non_empty_experts(const opst_view* counts, const opst_view* experts,
                                   const opst_view* pair_counts, int64_t* num_pairs) {
  return Make(__func__, num_pairs, [&](const Call& call) {
    const auto given = call.Values<int64_t>(counts, "counts");
    call.CheckNotNull(experts, "experts");
    call.CheckNotNull(pair_counts, "pair_counts");
    const auto ids = call.Room<int64_t>(experts, given.size(), "experts");
    const auto rows = call.Room<int64_t>(pair_counts, given.size(), "pair_counts");
    const auto pairs = opst::NonEmptyExperts(given);
    for (size_t index = 0; index < pairs.size(); ++index) {
      ids[index] = pairs[index].first;
      rows[index] = pairs[index].second;
    }
    *num_pairs = static_cast<int64_t>(pairs.size());
  });
}

opst_status opst_build_re_routing(const opst_view* counts, const opst_view* expert_counts,
                                  int32_t** row_sources, int64_t* num_rows) {
  return Make(__func__, row_sources, [&](const Call& call) {
    call.CheckNotNull(num_rows, "num_rows");
    const opst::ReRouting result = opst::BuildReRouting(call.In(counts, "counts"));
    call.Copy<int64_t>(result.expert_counts, expert_counts, "expert_counts");
    *row_sources = call.HandOver(std::span(result.row_sources));
    *num_rows = static_cast<int64_t>(result.row_sources.size());
  });
}
