// The gradients of CANN's token_unpermute by a routing map.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "aclnnop/aclnn_moe_token_unpermute_with_routing_map_grad.h"
#include "cann/src/moe/routing_map.h"
#include "cann/src/moe/row_moves.h"

namespace opst::cann {
namespace {

struct Operands {
  Index gradient = kAbsent;
  Index rows = kAbsent;       // row of each entry (outIndex)
  Index token_ids = kAbsent;  // token of each entry, with padding
  Index map = kAbsent;
  Index permuted = kAbsent;
  Index probs = kAbsent;
  Index d_permuted = kAbsent;
  Index d_probs = kAbsent;
};

// Row, token and expert of every entry.
struct Entries {
  std::vector<int32_t> rows;
  std::vector<int32_t> tokens;
  std::vector<int32_t> experts;
};

Entries PaddedEntries(const Run& run, const Operands& operands, MapShape shape) {
  const int64_t num_rows = run[operands.d_permuted].dim(0);
  Entries entries;
  entries.rows = run.Indices(operands.rows, 0, num_rows - 1);
  entries.tokens = run.Indices(operands.token_ids, 0, shape.tokens - 1);
  const int64_t capacity = std::max<int64_t>(num_rows / shape.experts, 1);
  for (const int32_t row : entries.rows) {
    entries.experts.push_back(static_cast<int32_t>(row / capacity));
  }
  return entries;
}

Entries UnpaddedEntries(const Run& run, const Operands& operands, MapShape shape) {
  const int64_t num_rows = run[operands.d_permuted].dim(0);
  const int64_t k = num_rows / shape.tokens;
  Entries entries;
  entries.rows = run.Indices(operands.rows, -1, num_rows - 1);
  for (size_t slot = 0; slot < entries.rows.size(); ++slot) {
    entries.tokens.push_back(static_cast<int32_t>(static_cast<int64_t>(slot) / k));
  }
  entries.experts.assign(entries.rows.size(), 0);
  if (operands.probs != kAbsent)
    entries.experts = ReadMap(run, operands.map, shape, k).slot_experts;
  return entries;
}

void RunGradients(const Run& run, const Operands& operands, MapShape shape, bool is_padded) {
  const int64_t width = run[operands.gradient].dim(1);
  const int64_t num_rows = run[operands.d_permuted].dim(0);
  const Entries entries =
      is_padded ? PaddedEntries(run, operands, shape) : UnpaddedEntries(run, operands, shape);
  std::vector<float> weights;
  if (operands.probs != kAbsent) {
    weights = PickProbs(run.Floats(operands.probs), shape.experts, entries.tokens, entries.experts);
  }
  const RowUse use{.rows = entries.rows, .weights = weights, .tokens = entries.tokens};
  const ConstTensorView gradient = run.In(operands.gradient, shape.tokens, width);
  SpreadRows(run.context(), gradient, use, UnusedRows::kStay,
             run.Out(operands.d_permuted, num_rows, width));
  if (operands.probs == kAbsent) return;
  const std::vector<float> dots =
      DotRows(run.context(), run.In(operands.permuted, num_rows, width), use, gradient);
  std::vector<float> d_probs(static_cast<size_t>(shape.tokens * shape.experts), 0.0f);
  for (size_t entry = 0; entry < dots.size(); ++entry) {
    if (entries.rows[entry] < 0 || entries.experts[entry] < 0) continue;
    d_probs[static_cast<size_t>(entries.tokens[entry] * shape.experts + entries.experts[entry])] =
        dots[entry];
  }
  run.SetFloats(operands.d_probs, d_probs);
}

MapShape CheckShapes(const Call& call, const Operands& operands, bool is_padded) {
  call.RankIs(operands.gradient, 2);
  call.RankIs(operands.d_permuted, 2);
  MapShape shape{call[operands.gradient].dim(0), 1};
  const int64_t width = call[operands.gradient].dim(1), rows = call[operands.d_permuted].dim(0);
  call.ShapeIs(operands.d_permuted, {rows, width});
  call.ShapeIs(operands.permuted, {rows, width});
  call.ShapeIs(operands.rows, {rows});
  if (is_padded) call.ShapeIs(operands.token_ids, {rows});
  if (operands.probs != kAbsent) {
    call.RankIs(operands.probs, 2);
    shape.experts = call[operands.probs].dim(1);
    for (const Index matrix : {operands.probs, operands.map, operands.d_probs}) {
      call.ShapeIs(matrix, {shape.tokens, shape.experts});
    }
  } else {
    call.Shape(operands.map == kAbsent && operands.permuted == kAbsent,
               "without probs routingMap and permutedTokens must be null", "one of them");
  }
  call.Shape(shape.tokens > 0 && shape.experts > 0 &&
                 rows % (is_padded ? shape.experts : shape.tokens) == 0,
             "the rows must be a multiple of the experts with padding, else of the tokens", rows);
  return shape;
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeTokenUnpermuteWithRoutingMapGradGetWorkspaceSize(
    const aclTensor* unpermutedTokensGrad, const aclTensor* outIndex,
    const aclTensor* permuteTokenId, const aclTensor* routingMapOptional,
    const aclTensor* permutedTokensOptional, const aclTensor* probsOptional, bool paddedMode,
    const aclIntArray* /*restoreShapeOptional*/, const aclTensor* permutedTokensGradOut,
    const aclTensor* probsGradOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnMoeTokenUnpermuteWithRoutingMapGrad";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const bool has_probs = probsOptional != nullptr;
    const auto with_probs = has_probs ? Need::kRequired : Need::kOptional;
    Operands operands;
    operands.gradient = call.Input("unpermutedTokensGrad", unpermutedTokensGrad, kFloats);
    operands.rows = call.Input("outIndex", outIndex, kI32);
    operands.token_ids = call.Input("permuteTokenId", permuteTokenId, kI32);
    operands.map = call.Input("routingMap", routingMapOptional, kMaps,
                              has_probs && !paddedMode ? Need::kRequired : Need::kOptional);
    operands.permuted = call.Input("permutedTokens", permutedTokensOptional, kFloats, with_probs);
    operands.probs = call.Input("probs", probsOptional, kFloats, Need::kOptional);
    operands.d_permuted = call.Output("permutedTokensGradOut", permutedTokensGradOut, kFloats);
    operands.d_probs = call.Output("probsGradOut", probsGradOutOptional, kFloats, with_probs);
    call.CheckOperands();
    for (const Index index : {operands.permuted, operands.probs, operands.d_permuted}) {
      call.SameDType(index, operands.gradient);
    }
    if (has_probs) call.SameDType(operands.d_probs, operands.gradient);
    const MapShape shape = CheckShapes(call, operands, paddedMode);
    return [=](Run& run) { RunGradients(run, operands, shape, paddedMode); };
  });
}

OPST_CANN_LAUNCH(aclnnMoeTokenUnpermuteWithRoutingMapGrad)
