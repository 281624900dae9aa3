// CANN's token_unpermute with its ranged form, and their gradients.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "aclnnop/aclnn_moe_token_unpermute.h"
#include "aclnnop/aclnn_moe_token_unpermute_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "cann/src/moe/permute_ranges.h"
#include "cann/src/moe/row_moves.h"

namespace opst::cann {
namespace {

// Slots, choices and tokens that sortedIndices and probs describe.
struct Slots {
  int64_t count;
  int64_t k;
  int64_t tokens() const { return count / k; }
};

Slots CheckSlots(const Call& call, Index sorted, Index probs, int64_t k_without_probs) {
  call.RankIs(sorted, 1);
  call.RankIs(probs, 2);
  const Slots slots{call[sorted].dim(0), probs == kAbsent ? k_without_probs : call[probs].dim(1)};
  call.Shape(slots.k >= 1 && slots.k <= kMaxPermuteChoices && slots.count % slots.k == 0,
             "K must be 1 to 512 and divide the slots", slots.k, " of ", slots.count);
  call.ShapeIs(probs, {slots.tokens(), slots.k});
  return slots;
}

// Rows in the range that are there; whatever lies behind the last row is passed over, as CANN does.
std::vector<int32_t> ReadRows(const Run& run, Index sorted, RowRange range, int64_t rows) {
  std::vector<int32_t> in_range = RowsInRange(run.Indices(sorted, 0, INT32_MAX), range);
  for (int32_t& row : in_range) row = row < rows ? row : -1;
  return in_range;
}

void RunUnpermute(const Run& run, Index permuted, Index sorted, Index probs, Index out,
                  RowRange range, Slots slots) {
  const int64_t rows = run[permuted].dim(0), width = run[permuted].dim(1);
  const auto row_ids = ReadRows(run, sorted, range, rows);
  const std::vector<float> weights = run.Floats(probs);
  SumRows(run.context(), run.In(permuted, rows, width),
          {.k = slots.k, .rows = row_ids, .weights = weights}, {.zero_weight = ZeroWeight::kSkips},
          run.Out(out, slots.tokens(), width));
}

struct Gradients {
  Index gradient = kAbsent;
  Index sorted = kAbsent;
  Index permuted = kAbsent;
  Index probs = kAbsent;
  Index d_permuted = kAbsent;
  Index d_probs = kAbsent;
};

void RunGradients(const Run& run, const Gradients& operands, RowRange range, Slots slots) {
  const int64_t width = run[operands.gradient].dim(1);
  const int64_t rows = run[operands.d_permuted].dim(0);
  const auto row_ids = ReadRows(run, operands.sorted, range, rows);
  const std::vector<float> weights = run.Floats(operands.probs);
  const RowUse use{.k = slots.k, .rows = row_ids, .weights = weights};
  const ConstTensorView gradient = run.In(operands.gradient, slots.tokens(), width);
  SpreadRows(run.context(), gradient, use, UnusedRows::kStay,
             run.Out(operands.d_permuted, rows, width));
  if (operands.probs == kAbsent) return;
  run.SetFloats(operands.d_probs,
                DotRows(run.context(), run.In(operands.permuted, rows, width), use, gradient));
}

void CheckGradients(Call& call, const Gradients& operands, RowRange range, Slots slots) {
  call.RankIs(operands.gradient, 2);
  const int64_t width = call[operands.gradient].dim(1);
  call.ShapeIs(operands.gradient, {slots.tokens(), width});
  call.ShapeIs(operands.d_permuted, {range.size(), width});
  call.ShapeIs(operands.permuted, {range.size(), width});
  if (operands.probs == kAbsent) return;
  call.ShapeIs(operands.d_probs, {slots.tokens(), slots.k});
}

void SameDTypes(const Call& call, const Gradients& operands) {
  call.SameDType(operands.permuted, operands.gradient);
  call.SameDType(operands.d_permuted, operands.gradient);
  call.SameDType(operands.d_probs, operands.probs);
}

// Negative values count from the end; then both are clamped.
RowRange NormalisedRange(Call& call, const aclIntArray* array, int64_t slots) {
  if (array == nullptr) return {0, slots};
  std::vector<int64_t> values = call.IntArray("range", array);
  call.Shape(values.size() == 2, "range must have 2 values", values.size());
  for (int64_t& value : values) {
    value = std::clamp(value < 0 ? value + slots : value, int64_t{0}, slots);
  }
  call.Shape(values[0] <= values[1], "range must not end before it begins", "[", values[0], ", ",
             values[1], ")");
  return {values[0], values[1]};
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeTokenUnpermuteGetWorkspaceSize(const aclTensor* permutedTokens,
                                                   const aclTensor* sortedIndices,
                                                   const aclTensor* probsOptional, bool paddedMode,
                                                   const aclIntArray* restoreShapeOptional,
                                                   aclTensor* out, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeTokenUnpermute", workspaceSize, executor, [&](Call& call) -> Body {
    const Index permuted = call.Input("permutedTokens", permutedTokens, kFloats);
    const Index sorted = call.Input("sortedIndices", sortedIndices, kI32);
    const Index probs = call.Input("probs", probsOptional, kFloats, Need::kOptional);
    const Index sum = call.Output("out", out, kFloats);
    call.CheckOperands();
    call.SameDType(sum, permuted);
    call.Param(!paddedMode && restoreShapeOptional == nullptr,
               "paddedMode must be false and restoreShape null", "another value");
    call.RankIs(permuted, 2);
    const Slots slots = CheckSlots(call, sorted, probs, 1);
    call.ShapeIs(sum, {slots.tokens(), call[permuted].dim(1)});
    const RowRange range{0, call[permuted].dim(0)};
    return [=](Run& run) { RunUnpermute(run, permuted, sorted, probs, sum, range, slots); };
  });
}

aclnnStatus aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(
    const aclTensor* permutedTokens, const aclTensor* sortedIndices, const aclTensor* probsOptional,
    int64_t numTopk, const aclIntArray* rangeOptional, bool paddedMode,
    const aclIntArray* restoreShapeOptional, const aclTensor* out, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const char* const name = "aclnnMoeTokenUnpermuteWithEp";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const Index permuted = call.Input("permutedTokens", permutedTokens, kFloats);
    const Index sorted = call.Input("sortedIndices", sortedIndices, kI32);
    const Index probs = call.Input("probs", probsOptional, kFloats, Need::kOptional);
    const Index sum = call.Output("out", out, kFloats);
    const std::vector<int64_t> given = call.IntArray("range", rangeOptional);
    call.CheckOperands();
    call.SameDType(sum, permuted);
    call.Shape(!paddedMode && restoreShapeOptional == nullptr,
               "paddedMode must be false and restoreShape null", "another value");
    call.RankIs(permuted, 2);
    call.Shape(numTopk >= 1, "numTopk must be positive", numTopk);
    // Without a range this is token_unpermute, whose rows without probabilities are not added.
    const bool is_plain = rangeOptional == nullptr;
    const Slots slots = CheckSlots(call, sorted, probs, is_plain ? 1 : numTopk);
    call.Shape(is_plain || slots.k == numTopk, "numTopk must be the columns of probs", numTopk,
               " for ", slots.k);
    call.Shape(is_plain || given.size() == 2, "range must have 2 values", given.size());
    const RowRange range =
        is_plain ? RowRange{0, call[permuted].dim(0)} : RowRange{given[0], given[1]};
    call.Shape(
        range.begin >= 0 && range.begin <= range.end && (is_plain || range.end <= slots.count),
        "range must be a range of sorted rows", "[", range.begin, ", ", range.end, ") of ",
        slots.count);
    call.ShapeIs(permuted, {range.size(), call[permuted].dim(1)});
    call.ShapeIs(sum, {slots.tokens(), call[permuted].dim(1)});
    return [=](Run& run) { RunUnpermute(run, permuted, sorted, probs, sum, range, slots); };
  });
}

aclnnStatus aclnnMoeTokenUnpermuteGradGetWorkspaceSize(
    const aclTensor* permuteTokens, const aclTensor* unpermutedTokensGrad,
    const aclTensor* sortedIndices, const aclTensor* probsOptional, bool paddedMode,
    const aclIntArray* restoreShapeOptional, aclTensor* permutedTokensGradOut,
    aclTensor* probsGradOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnMoeTokenUnpermuteGrad";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    Gradients operands;
    operands.permuted = call.Input("permuteTokens", permuteTokens, kFloats);
    operands.gradient = call.Input("unpermutedTokensGrad", unpermutedTokensGrad, kFloats);
    operands.sorted = call.Input("sortedIndices", sortedIndices, kI32);
    operands.probs = call.Input("probs", probsOptional, kFloats, Need::kOptional);
    operands.d_permuted = call.Output("permutedTokensGradOut", permutedTokensGradOut, kFloats);
    operands.d_probs = call.Output("probsGradOut", probsGradOut, kFloats,
                                   probsOptional ? Need::kRequired : Need::kOptional);
    call.CheckOperands();
    SameDTypes(call, operands);
    call.Param(!paddedMode && restoreShapeOptional == nullptr,
               "paddedMode must be false and restoreShape null", "another value");
    call.RankIs(operands.permuted, 2);
    const Slots slots = CheckSlots(call, operands.sorted, operands.probs, 1);
    const RowRange range{0, call[operands.permuted].dim(0)};
    CheckGradients(call, operands, range, slots);
    return [=](Run& run) { RunGradients(run, operands, range, slots); };
  });
}

aclnnStatus aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
    const aclTensor* unpermutedTokensGrad, const aclTensor* sortedIndices,
    const aclTensor* permutedTokensOptional, const aclTensor* probsOptional, bool paddedMode,
    const aclIntArray* /*restoreShapeOptional*/, const aclIntArray* rangeOptional, int64_t topkNum,
    const aclTensor* permutedTokensGradOut, const aclTensor* probsGradOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const char* const name = "aclnnMoeTokenUnpermuteWithEpGrad";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    Gradients operands;
    operands.gradient = call.Input("unpermutedTokensGrad", unpermutedTokensGrad, kFloats);
    operands.sorted = call.Input("sortedIndices", sortedIndices, kI32);
    operands.permuted =
        call.Input("permutedTokens", permutedTokensOptional, kFloats, Need::kOptional);
    operands.probs = call.Input("probs", probsOptional, kFloats, Need::kOptional);
    operands.d_permuted = call.Output("permutedTokensGradOut", permutedTokensGradOut, kFloats);
    operands.d_probs = call.Output("probsGradOut", probsGradOut, kFloats,
                                   probsOptional ? Need::kRequired : Need::kOptional);
    call.CheckOperands();
    SameDTypes(call, operands);
    call.Shape(!paddedMode, "paddedMode must be false", "true");
    call.Shape(operands.probs == kAbsent || operands.permuted != kAbsent,
               "probs must come with permutedTokens", "probs alone");
    const Slots slots = CheckSlots(call, operands.sorted, operands.probs, topkNum);
    const RowRange range = NormalisedRange(call, rangeOptional, slots.count);
    CheckGradients(call, operands, range, slots);
    call.Shape(call[operands.gradient].num_elements() > 0, "tensors must not be empty",
               call[operands.gradient].Describe());
    return [=](Run& run) { RunGradients(run, operands, range, slots); };
  });
}

OPST_CANN_LAUNCH(aclnnMoeTokenUnpermute)
OPST_CANN_LAUNCH(aclnnMoeTokenUnpermuteGrad)
OPST_CANN_LAUNCH(aclnnMoeTokenUnpermuteWithEp)
OPST_CANN_LAUNCH(aclnnMoeTokenUnpermuteWithEpGrad)
