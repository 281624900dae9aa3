// CANN's gating operators over Gate: numbering of rows, finished tokens, which scores come back.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/gating.h"

#include <algorithm>
#include <vector>

#include "aclnnop/aclnn_moe_gating_top_k.h"
#include "aclnnop/aclnn_moe_gating_top_k_softmax.h"
#include "aclnnop/aclnn_moe_gating_top_k_softmax_v2.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"

namespace opst::cann {
namespace {

constexpr int64_t kMaxExperts = 2048;
constexpr int64_t kMaxChoices = 1024;
constexpr int64_t kSortWidth = 32;  // groups are padded to this many scores on the device

// Rows and columns of logits that may have leading dims.
struct Rows {
  int64_t tokens = 1;
  int64_t experts = 0;
};

Rows RowsOf(const Operand& x) {
  Rows rows;
  for (size_t axis = 0; axis + 1 < x.rank(); ++axis) rows.tokens *= x.dim(axis);
  rows.experts = x.dim(x.rank() - 1);
  return rows;
}

// The leading dims of x, then `last`.
void CheckOutput(const Call& call, Index output, Index x, int64_t last) {
  if (output == kAbsent) return;
  std::vector<int64_t> dims = call[x].dims;
  dims.back() = last;
  call.Shape(call[output].dims == dims,
             Concat(call[output].name, " must be x's dims, the last ", last),
             call[output].Describe(), " for ", call[x].Describe());
}

GatingResult RunGate(const Run& run, Index x, const Rows& rows, GatingOptions options) {
  const std::vector<float> logits = run.Floats(x);
  return Gate(run.context(), ConstTensorView(logits.data(), Shape{rows.tokens, rows.experts}),
              options);
}

void WriteIds(const Run& run, Index output, const std::vector<int32_t>& ids) {
  std::copy(ids.begin(), ids.end(), run.Span<int32_t>(output).begin());
}

// Finished tokens choose the expert behind the last one; their weights stay.
void MarkFinished(const Run& run, Index finished, const Rows& rows, int64_t k,
                  std::vector<int32_t>& ids) {
  if (finished == kAbsent) return;
  const auto flags = run.Span<const uint8_t>(finished);
  for (size_t token = 0; token < flags.size(); ++token) {
    if (flags[token] == 0) continue;
    const auto first = ids.begin() + static_cast<int64_t>(token) * k;
    std::fill(first, first + k, static_cast<int32_t>(rows.experts));
  }
}

struct GroupedGate {
  int64_t k;
  int64_t kept_groups;
  int64_t groups;
  int64_t group_mode;
  int64_t renorm;
  int64_t norm_type;
  bool returns_scores;
  double scale;
  double eps;
};

bool IsGrouped(const GroupedGate& gate, int64_t experts) {
  return gate.groups != 1 && gate.groups != experts && gate.kept_groups != gate.groups;
}

void CheckGroups(const Call& call, const GroupedGate& gate, int64_t experts) {
  call.Shape(gate.groups >= 1 && experts % gate.groups == 0,
             "groupCount must be positive and divide the experts", gate.groups, " for ", experts);
  call.Shape(gate.kept_groups >= 1 && gate.kept_groups <= gate.groups,
             "kGroup must be 1 to groupCount", gate.kept_groups, " of ", gate.groups);
  const int64_t per_group = experts / gate.groups;
  call.Shape(gate.group_mode == 0 || gate.group_mode == 1, "groupSelectMode must be 0 or 1",
             gate.group_mode);
  if (!IsGrouped(gate, experts)) return;
  call.Shape(gate.group_mode == 0 || per_group >= 2,
             "groups must have two experts for groupSelectMode 1", per_group);
  call.Shape(gate.groups * ((per_group + kSortWidth - 1) / kSortWidth * kSortWidth) <= kMaxExperts,
             "groupCount times the experts of a group, rounded up to 32, must be at most 2048",
             gate.groups, " groups of ", per_group);
}

void CheckGrouped(const Call& call, Index x, Index bias, const GroupedGate& gate) {
  call.RankIs(x, 2);
  const int64_t experts = call[x].dim(1);
  call.Shape(experts >= 1 && experts <= kMaxExperts, "there must be 1 to 2048 experts", experts);
  call.ShapeIs(bias, {experts});
  CheckGroups(call, gate, experts);
  call.Shape(gate.k >= 1 && gate.k <= experts / gate.groups * gate.kept_groups,
             "k must be 1 to the experts of the kept groups", gate.k);
  call.Shape(gate.renorm == 0, "renorm must be 0", gate.renorm);
  call.Shape(gate.norm_type == 0 || gate.norm_type == 1, "normType must be 0 or 1", gate.norm_type);
}

GatingOptions OptionsOf(const GroupedGate& gate, int64_t experts) {
  GatingOptions options{.top_k = gate.k};
  const bool is_sigmoid = gate.norm_type == 1;
  options.score_function = is_sigmoid ? ScoreFunction::kSigmoid : ScoreFunction::kSoftmax;
  options.renormalizes = is_sigmoid;
  options.renormalization_epsilon = static_cast<float>(is_sigmoid ? gate.eps : 0);
  options.scale = static_cast<float>(gate.scale);
  options.returns_scores = gate.returns_scores;
  if (IsGrouped(gate, experts)) {
    options.num_groups = gate.groups;
    options.num_kept_groups = gate.kept_groups;
    options.group_score = gate.group_mode == 0 ? GroupScore::kMax : GroupScore::kSumOfTopTwo;
  }
  return options;
}

// The checks that both softmax operators share.
Rows CheckSoftmax(const Call& call, Index x, Index finished, int64_t k) {
  const size_t rank = call[x].rank();
  call.Shape(rank == 2 || rank == 3, "x must have 2 or 3 dims", call[x].Describe());
  const Rows rows = RowsOf(call[x]);
  call.Shape(rows.tokens > 0 && rows.experts > 0, "x must not be empty", call[x].Describe());
  call.Shape(k >= 1 && k <= std::min(rows.experts, kMaxChoices),
             "k must be 1 to the smaller of the experts and 1024", k, " of ", rows.experts);
  if (finished != kAbsent) {
    std::vector<int64_t> leading = call[x].dims;
    leading.pop_back();
    call.Shape(call[finished].dims == leading, "finished must have x's dims without the last",
               call[finished].Describe(), " for ", call[x].Describe());
  }
  return rows;
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeGatingTopKGetWorkspaceSize(
    const aclTensor* x, const aclTensor* biasOptional, int64_t k, int64_t kGroup,
    int64_t groupCount, int64_t groupSelectMode, int64_t renorm, int64_t normType, bool outFlag,
    double routedScalingFactor, double eps, const aclTensor* yOut, const aclTensor* expertIdxOut,
    const aclTensor* outOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const GroupedGate gate{
      k, kGroup, groupCount, groupSelectMode, renorm, normType, outFlag, routedScalingFactor, eps};
  return PrepareCall("aclnnMoeGatingTopK", workspaceSize, executor, [&](Call& call) -> Body {
    const Index logits = call.Input("x", x, kFloats);
    const Index bias = call.Input("bias", biasOptional, kFloats, Need::kOptional);
    const Index y = call.Output("yOut", yOut, kFloats);
    const Index ids = call.Output("expertIdxOut", expertIdxOut, kI32);
    const Index scores = call.Output("outOut", outOut, kF32);
    call.CheckOperands();
    call.SameDType(bias, logits);
    call.SameDType(y, logits);
    CheckGrouped(call, logits, bias, gate);
    const Rows rows = RowsOf(call[logits]);
    call.ShapeIs(y, {rows.tokens, gate.k});
    call.ShapeIs(ids, {rows.tokens, gate.k});
    if (gate.returns_scores) call.ShapeIs(scores, {rows.tokens, rows.experts});
    return [=](Run& run) {
      if (rows.tokens == 0) return;
      // Without a bias zeros: equal scores are ties then, even when their logits differ.
      std::vector<float> selection_bias = run.Floats(bias);
      selection_bias.resize(static_cast<size_t>(rows.experts), 0.0f);
      GatingOptions options = OptionsOf(gate, rows.experts);
      options.selection_bias = selection_bias;
      const GatingResult result = RunGate(run, logits, rows, options);
      run.SetFloats(y, result.expert_weights);
      WriteIds(run, ids, result.expert_ids);
      if (gate.returns_scores) run.SetFloats(scores, result.scores);
    };
  });
}

aclnnStatus aclnnMoeGatingTopKSoftmaxGetWorkspaceSize(
    const aclTensor* x, const aclTensor* finishedOptional, int64_t k, const aclTensor* yOut,
    const aclTensor* expertIdxOut, const aclTensor* rowIdxOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeGatingTopKSoftmax", workspaceSize, executor, [&](Call& call) -> Body {
    const Index logits = call.Input("x", x, kFloats);
    const Index finished = call.Input("finished", finishedOptional, kBools, Need::kOptional);
    const Index y = call.Output("yOut", yOut, kFloats);
    const Index ids = call.Output("expertIdxOut", expertIdxOut, kI32);
    const Index row_ids = call.Output("rowIdxOut", rowIdxOut, kI32);
    call.CheckOperands();
    call.SameDType(y, logits);
    const Rows rows = CheckSoftmax(call, logits, finished, k);
    for (const Index output : {y, ids, row_ids}) CheckOutput(call, output, logits, k);
    return [=](Run& run) {
      const std::vector<float> zeros(static_cast<size_t>(rows.experts), 0.0f);
      GatingResult result =
          RunGate(run, logits, rows,
                  GatingOptions{.top_k = k, .selection_bias = zeros, .renormalizes = false});
      run.SetFloats(y, result.expert_weights);
      MarkFinished(run, finished, rows, k, result.expert_ids);
      WriteIds(run, ids, result.expert_ids);
      const auto numbers = run.Span<int32_t>(row_ids);
      for (int64_t slot = 0; slot < rows.tokens * k; ++slot) {
        numbers[static_cast<size_t>(slot)] =
            static_cast<int32_t>(slot % k * rows.tokens + slot / k);
      }
    };
  });
}

aclnnStatus aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize(
    const aclTensor* x, const aclTensor* finishedOptional, int64_t k, int64_t renorm,
    bool outputSoftmaxResultFlag, const aclTensor* yOut, const aclTensor* expertIdxOut,
    const aclTensor* softmaxResultOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnMoeGatingTopKSoftmaxV2";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const bool wants_scores = renorm == 0 && outputSoftmaxResultFlag;
    const Index logits = call.Input("x", x, kFloats);
    const Index finished = call.Input("finished", finishedOptional, kBools, Need::kOptional);
    const Index y = call.Output("yOut", yOut, kFloats);
    const Index ids = call.Output("expertIdxOut", expertIdxOut, kI32);
    const Index scores = call.Output("softmaxResultOut", softmaxResultOutOptional, kF32,
                                     wants_scores ? Need::kRequired : Need::kOptional);
    call.CheckOperands();
    call.SameDType(y, logits);
    call.Shape(renorm == 0 || renorm == 1, "renorm must be 0 or 1", renorm);
    const Rows rows = CheckSoftmax(call, logits, finished, k);
    for (const Index output : {y, ids}) CheckOutput(call, output, logits, k);
    if (wants_scores) CheckOutput(call, scores, logits, rows.experts);
    return [=](Run& run) {
      const std::vector<float> zeros(static_cast<size_t>(rows.experts), 0.0f);
      GatingOptions options{.top_k = k, .renormalizes = false};
      if (renorm == 0) options.selection_bias = zeros;
      if (renorm == 1) options.score_function = ScoreFunction::kSoftmaxOfChosen;
      options.returns_scores = wants_scores;
      GatingResult result = RunGate(run, logits, rows, options);
      run.SetFloats(y, result.expert_weights);
      MarkFinished(run, finished, rows, k, result.expert_ids);
      WriteIds(run, ids, result.expert_ids);
      if (wants_scores) run.SetFloats(scores, result.scores);
    };
  });
}

OPST_CANN_LAUNCH(aclnnMoeGatingTopK)
OPST_CANN_LAUNCH(aclnnMoeGatingTopKSoftmax)
OPST_CANN_LAUNCH(aclnnMoeGatingTopKSoftmaxV2)
