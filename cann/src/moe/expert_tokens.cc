// CANN's counts of a sorted expert list, and rows regrouped from ranks to experts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "aclnnop/aclnn_moe_compute_expert_tokens.h"
#include "aclnnop/aclnn_moe_re_routing.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "opst/ops/expert_counts.h"
#include "opst/ops/sparse_rows.h"

namespace opst::cann {
namespace {

constexpr int64_t kMaxSortedExperts = int64_t{1} << 24;
constexpr int64_t kMaxCountedExperts = 2048;
constexpr int64_t kMaxHidden = 16384;
constexpr std::array kReRouted = {ACL_FLOAT16, ACL_BF16, ACL_INT8};

// Entries equal to num_experts are finished tokens, which count nowhere.
void CountSorted(const Run& run, Index sorted, Index out, int64_t num_experts) {
  std::vector<int32_t> ids = run.Indices(sorted, 0, num_experts);
  const auto unsorted = std::is_sorted_until(ids.begin(), ids.end());
  run.Value(unsorted == ids.end(), "sortedExperts must be ascending", "position ",
            unsorted - ids.begin());
  std::replace(ids.begin(), ids.end(), static_cast<int32_t>(num_experts), -1);
  const Shape shape{static_cast<int64_t>(ids.size())};
  run.SetInts(out, RunningSums(CountExperts(ConstTensorView(ids.data(), shape), num_experts)));
}

void ReRoute(const Run& run, Index tokens, Index counts, Index scales, Index out, Index out_scales,
             Index sources, Index totals) {
  const int64_t rows = run[tokens].dim(0), width = run[tokens].dim(1);
  const ReRouting routing = BuildReRouting(run.In(counts, run[counts].dim(0), run[counts].dim(1)));
  const auto used = static_cast<int64_t>(routing.row_sources.size());
  run.Value(used <= rows, "expertTokenNumPerRank must count at most the rows of tokens", used,
            " of ", rows);
  const ConstTensorView order(routing.row_sources.data(), Shape{used});
  if (used > 0 && width > 0) {
    const TensorView target(run.data(out), run.Out(out, rows, width).dtype(), Shape{used, width});
    SparseGather(run.context(), run.In(tokens, rows, width), order, target);
    if (scales != kAbsent) {
      SparseGather(run.context(), run.In(scales, rows, 1), order,
                   TensorView(run.data(out_scales), DType::kF32, Shape{used, 1}));
    }
  }
  std::copy(routing.row_sources.begin(), routing.row_sources.end(),
            run.Span<int32_t>(sources).begin());
  run.SetInts(totals, routing.expert_counts);
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeComputeExpertTokensGetWorkspaceSize(const aclTensor* sortedExperts,
                                                        int64_t numExperts, const aclTensor* out,
                                                        uint64_t* workspaceSize,
                                                        aclOpExecutor** executor) {
  const char* const name = "aclnnMoeComputeExpertTokens";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const Index sorted = call.Input("sortedExperts", sortedExperts, kI32);
    const Index counts = call.Output("out", out, kI32);
    call.CheckOperands();
    call.RankIs(sorted, 1);
    call.Shape(call[sorted].dim(0) <= kMaxSortedExperts, "sortedExperts must have at most 2^24",
               call[sorted].Describe());
    call.Shape(numExperts >= 1 && numExperts <= kMaxCountedExperts, "numExperts must be 1 to 2048",
               numExperts);
    call.ShapeIs(counts, {numExperts});
    return [=](Run& run) { CountSorted(run, sorted, counts, numExperts); };
  });
}

aclnnStatus aclnnMoeReRoutingGetWorkspaceSize(
    const aclTensor* tokens, const aclTensor* expertTokenNumPerRank,
    const aclTensor* perTokenScalesOptional, int64_t expertTokenNumType, int64_t idxType,
    const aclTensor* permuteTokensOut, const aclTensor* permutePerTokenScalesOut,
    const aclTensor* permuteTokenIdxOut, const aclTensor* expertTokenNumOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeReRouting", workspaceSize, executor, [&](Call& call) -> Body {
    const Index x = call.Input("tokens", tokens, kReRouted);
    const Index counts = call.Input("expertTokenNumPerRank", expertTokenNumPerRank, kI32OrI64);
    const Index scales =
        call.Input("perTokenScales", perTokenScalesOptional, kF32, Need::kOptional);
    const Index out = call.Output("permuteTokensOut", permuteTokensOut, kReRouted);
    const Index out_scales = call.Output("permutePerTokenScalesOut", permutePerTokenScalesOut, kF32,
                                         scales == kAbsent ? Need::kOptional : Need::kRequired);
    const Index sources = call.Output("permuteTokenIdxOut", permuteTokenIdxOut, kI32);
    const Index totals = call.Output("expertTokenNumOut", expertTokenNumOut, kI32OrI64);
    call.CheckOperands();
    call.SameDType(out, x);
    call.SameDType(totals, counts);
    call.RankIs(x, 2);
    call.RankIs(counts, 2);
    call.Shape(call[x].dim(1) <= kMaxHidden, "tokens must have at most 16384 columns",
               call[x].Describe());
    call.Shape(expertTokenNumType == 1, "expertTokenNumType must be 1 (counts)",
               expertTokenNumType);
    call.Shape(idxType == 0, "idxType must be 0", idxType);
    call.ShapeIs(out, {call[x].dim(0), call[x].dim(1)});
    call.ShapeIs(scales, {call[x].dim(0)});
    if (scales != kAbsent) call.ShapeIs(out_scales, {call[x].dim(0)});
    call.ShapeIs(sources, {call[x].dim(0)});
    call.ShapeIs(totals, {call[counts].dim(1)});
    return [=](Run& run) { ReRoute(run, x, counts, scales, out, out_scales, sources, totals); };
  });
}

OPST_CANN_LAUNCH(aclnnMoeComputeExpertTokens)
OPST_CANN_LAUNCH(aclnnMoeReRouting)
