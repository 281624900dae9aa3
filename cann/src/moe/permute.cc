// CANN's token_permute with its ranged form, and their gradients.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "aclnnop/aclnn_moe_token_permute.h"
#include "aclnnop/aclnn_moe_token_permute_grad.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#include "cann/src/moe/permute_ranges.h"
#include "cann/src/moe/row_moves.h"
#include "cann/src/moe/row_order.h"
#include "opst/ops/sparse_rows.h"

namespace opst::cann {
namespace {

struct Permuted {
  Index tokens = kAbsent;
  Index indices = kAbsent;
  Index probs = kAbsent;
  Index out = kAbsent;
  Index sorted = kAbsent;
  Index out_probs = kAbsent;
};

// Sorts, writes the row of every slot, and gathers the rows of the range.
void RunPermute(const Run& run, const Permuted& operands, RowRange range, int64_t k) {
  const RowOrder order = OrderById(run, run.Indices(operands.indices, 0, kLargestId));
  std::copy(order.slot_to_row.begin(), order.slot_to_row.end(),
            run.Span<int32_t>(operands.sorted).begin());
  const std::vector<float> probs = run.Floats(operands.probs);
  std::vector<int32_t> row_tokens;
  std::vector<float> row_probs;
  for (int64_t row = range.begin; row < range.end; ++row) {
    const int32_t slot = order.row_to_slot[static_cast<size_t>(row)];
    row_tokens.push_back(slot / static_cast<int32_t>(k));
    if (!probs.empty()) row_probs.push_back(probs[static_cast<size_t>(slot)]);
  }
  if (operands.out_probs != kAbsent && !probs.empty()) run.SetFloats(operands.out_probs, row_probs);
  const int64_t width = run[operands.tokens].dim(1);
  if (range.size() == 0 || width == 0) return;
  SparseGather(run.context(), run.In(operands.tokens, run[operands.tokens].dim(0), width),
               ConstTensorView(row_tokens.data(), Shape{range.size()}),
               run.Out(operands.out, range.size(), width));
}

// Σ of the gradient's rows of every token; rows outside the range contribute nothing.
void RunPermuteGrad(const Run& run, Index gradient, Index sorted, Index out, RowRange range,
                    int64_t k) {
  const auto rows = RowsInRange(run.Indices(sorted, 0, INT32_MAX), range);
  const int64_t width = run[out].dim(1);
  SumRows(run.context(), run.In(gradient, range.size(), width), {.k = k, .rows = rows}, {},
          run.Out(out, run[out].dim(0), width));
}

void CheckGrad(const Call& call, Index gradient, Index sorted, Index out, int64_t k) {
  call.RankIs(gradient, 2);
  call.RankIs(sorted, 1);
  const int64_t slots = call[sorted].dim(0);
  call.Shape(k >= 1 && k <= kMaxPermuteChoices && slots % k == 0,
             "numTopk must be 1 to 512 and divide the slots", k, " of ", slots);
  call.ShapeIs(out, {slots / k, call[gradient].dim(1)});
}

// A null range is the plain operator: rows [0, kept).
RowRange RangeOf(const Call& call, const aclIntArray* array, int64_t kept, int64_t slots) {
  if (array == nullptr) return {0, kept};
  const std::vector<int64_t> values = call.IntArray("range", array);
  call.Shape(values.size() == 2, "range must have 2 values", values.size());
  const RowRange range{values[0], values[1]};
  call.Shape(range.begin >= 0 && range.begin <= range.end && range.end <= slots,
             "range must be a range of sorted rows", "[", range.begin, ", ", range.end, ") of ",
             slots);
  return range;
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeTokenPermuteGetWorkspaceSize(const aclTensor* tokens, const aclTensor* indices,
                                                 int64_t numOutTokens, bool paddedMode,
                                                 const aclTensor* permuteTokensOut,
                                                 const aclTensor* sortedIndicesOut,
                                                 uint64_t* workspaceSize,
                                                 aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeTokenPermute", workspaceSize, executor, [&](Call& call) -> Body {
    Permuted operands;
    operands.tokens = call.Input("tokens", tokens, kFloatsOrInt8);
    operands.indices = call.Input("indices", indices, kI32OrI64);
    operands.out = call.Output("permuteTokensOut", permuteTokensOut, kFloatsOrInt8);
    operands.sorted = call.Output("sortedIndicesOut", sortedIndicesOut, kI32);
    call.CheckOperands();
    call.SameDType(operands.out, operands.tokens);
    call.Param(!paddedMode, "paddedMode must be false", "true");
    const int64_t k = CheckIndices(call, operands.indices, operands.tokens);
    const int64_t slots = call[operands.indices].num_elements();
    const RowRange range{0, KeptRows(numOutTokens, slots)};
    call.ShapeIs(operands.out, {range.end, call[operands.tokens].dim(1)});
    call.ShapeIs(operands.sorted, {slots});
    return [=](Run& run) { RunPermute(run, operands, range, k); };
  });
}

aclnnStatus aclnnMoeTokenPermuteGradGetWorkspaceSize(const aclTensor* permutedOutputGrad,
                                                     const aclTensor* sortedIndices,
                                                     int64_t numTopk, bool paddedMode,
                                                     aclTensor* out, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeTokenPermuteGrad", workspaceSize, executor, [&](Call& call) -> Body {
    const Index gradient = call.Input("permutedOutputGrad", permutedOutputGrad, kFloats);
    const Index sorted = call.Input("sortedIndices", sortedIndices, kI32);
    const Index sum = call.Output("out", out, kFloats);
    call.CheckOperands();
    call.SameDType(sum, gradient);
    call.Param(!paddedMode, "paddedMode must be false", "true");
    CheckGrad(call, gradient, sorted, sum, numTopk);
    const RowRange range{0, call[gradient].dim(0)};
    return [=](Run& run) { RunPermuteGrad(run, gradient, sorted, sum, range, numTopk); };
  });
}

aclnnStatus aclnnMoeTokenPermuteWithEpGetWorkspaceSize(
    const aclTensor* tokens, const aclTensor* indices, const aclTensor* probsOptional,
    const aclIntArray* rangeOptional, int64_t numOutTokens, bool paddedMode,
    const aclTensor* permuteTokensOut, const aclTensor* sortedIndicesOut,
    const aclTensor* permuteProbsOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnMoeTokenPermuteWithEp";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    // Without a range CANN falls back to the plain operator, which knows no probabilities.
    const bool has_probs = probsOptional != nullptr && rangeOptional != nullptr;
    Permuted operands;
    operands.tokens = call.Input("tokens", tokens, kFloats);
    operands.indices = call.Input("indices", indices, kI32OrI64);
    operands.probs =
        call.Input("probs", has_probs ? probsOptional : nullptr, kFloats, Need::kOptional);
    operands.out = call.Output("permuteTokensOut", permuteTokensOut, kFloats);
    operands.sorted = call.Output("sortedIndicesOut", sortedIndicesOut, kI32);
    operands.out_probs = call.Output("permuteProbsOut", permuteProbsOut, kFloats,
                                     has_probs ? Need::kRequired : Need::kOptional);
    call.CheckOperands();
    call.SameDType(operands.out, operands.tokens);
    call.SameDType(operands.probs, operands.tokens);
    call.SameDType(operands.out_probs, operands.probs);
    call.Shape(!paddedMode, "paddedMode must be false", "true");
    const int64_t k = CheckIndices(call, operands.indices, operands.tokens);
    const int64_t slots = call[operands.indices].num_elements();
    const RowRange range = RangeOf(call, rangeOptional, KeptRows(numOutTokens, slots), slots);
    call.ShapeIs(operands.out, {range.size(), call[operands.tokens].dim(1)});
    call.ShapeIs(operands.sorted, {slots});
    call.Shape(!has_probs || call[operands.probs].dims == call[operands.indices].dims,
               "probs must have the dims of indices",
               has_probs ? call[operands.probs].Describe() : "");
    if (has_probs) call.ShapeIs(operands.out_probs, {range.size()});
    return [=](Run& run) { RunPermute(run, operands, range, k); };
  });
}

aclnnStatus aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(
    const aclTensor* permutedTokensOutputGrad, const aclTensor* sortedIndices,
    const aclTensor* permutedProbsOutputGradOptional, int64_t numTopk,
    const aclIntArray* rangeOptional, bool paddedMode, const aclTensor* tokenGradOut,
    const aclTensor* probsGradOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnMoeTokenPermuteWithEpGrad";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const bool has_probs = permutedProbsOutputGradOptional != nullptr;
    const Index gradient =
        call.Input("permutedTokensOutputGrad", permutedTokensOutputGrad, kFloats);
    const Index sorted = call.Input("sortedIndices", sortedIndices, kI32);
    const Index probs = call.Input("permutedProbsOutputGrad", permutedProbsOutputGradOptional,
                                   kFloats, Need::kOptional);
    const Index sum = call.Output("tokenGradOut", tokenGradOut, kFloats);
    const Index out_probs = call.Output("probsGradOut", probsGradOut, kFloats,
                                        has_probs ? Need::kRequired : Need::kOptional);
    call.CheckOperands();
    call.SameDType(sum, gradient);
    call.SameDType(probs, gradient);
    call.SameDType(out_probs, probs);
    call.Shape(!paddedMode, "paddedMode must be false", "true");
    CheckGrad(call, gradient, sorted, sum, numTopk);
    const int64_t slots = call[sorted].dim(0);
    const RowRange range = RangeOf(call, rangeOptional, call[gradient].dim(0), slots);
    call.ShapeIs(gradient, {range.size(), call[gradient].dim(1)});
    call.ShapeIs(probs, {range.size()});
    if (has_probs) call.ShapeIs(out_probs, {slots / numTopk, numTopk});
    return [=](Run& run) {
      RunPermuteGrad(run, gradient, sorted, sum, range, numTopk);
      if (!has_probs) return;
      const std::vector<float> given = run.Floats(probs);
      std::vector<float> result;
      for (const int32_t row : RowsInRange(run.Indices(sorted, 0, INT32_MAX), range)) {
        result.push_back(row < 0 ? 0.0f : given[static_cast<size_t>(row)]);
      }
      run.SetFloats(out_probs, result);
    };
  });
}

OPST_CANN_LAUNCH(aclnnMoeTokenPermute)
OPST_CANN_LAUNCH(aclnnMoeTokenPermuteGrad)
OPST_CANN_LAUNCH(aclnnMoeTokenPermuteWithEp)
OPST_CANN_LAUNCH(aclnnMoeTokenPermuteWithEpGrad)
