// CANN's token_unpermute by a routing map, with and without padding.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "aclnnop/aclnn_moe_token_unpermute_with_routing_map.h"
#include "cann/src/moe/routing_map.h"
#include "cann/src/moe/row_moves.h"
#include "opst/ops/sparse_rows.h"

namespace opst::cann {
namespace {

struct Operands {
  Index rows = kAbsent;
  Index sorted = kAbsent;
  Index map = kAbsent;
  Index probs = kAbsent;
  Index out = kAbsent;
  Index out_index = kAbsent;
  Index token_ids = kAbsent;
  Index row_probs = kAbsent;
};

// The stable order of the rows by token: places first, then the tokens themselves.
void WriteOrder(const Run& run, const Operands& operands, const std::vector<int32_t>& tokens) {
  std::vector<int32_t> order(tokens.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return tokens[static_cast<size_t>(a)] < tokens[static_cast<size_t>(b)];
  });
  const auto places = run.Span<int32_t>(operands.out_index);
  const auto sorted = run.Span<int32_t>(operands.token_ids);
  for (size_t i = 0; i < order.size(); ++i) {
    places[i] = order[i];
    sorted[i] = tokens[static_cast<size_t>(order[i])];
  }
}

void RunPadded(const Run& run, const Operands& operands, MapShape shape) {
  const int64_t rows = run[operands.rows].dim(0), width = run[operands.rows].dim(1);
  const auto tokens = run.Indices(operands.sorted, 0, shape.tokens - 1);
  std::vector<float> weights;
  if (operands.probs != kAbsent) {
    std::vector<int32_t> experts(tokens.size());
    const int64_t capacity = std::max<int64_t>(rows / shape.experts, 1);
    for (size_t row = 0; row < experts.size(); ++row) {
      experts[row] = static_cast<int32_t>(static_cast<int64_t>(row) / capacity);
    }
    weights = PickProbs(run.Floats(operands.probs), shape.experts, tokens, experts);
    run.SetFloats(operands.row_probs, weights);
  }
  WriteOrder(run, operands, tokens);
  if (width == 0) return;
  const ConstTensorView factors =
      weights.empty() ? ConstTensorView{} : ConstTensorView(weights.data(), Shape{rows});
  SparseScatterAdd(run.context(), run.In(operands.rows, rows, width),
                   ConstTensorView(tokens.data(), Shape{rows}), factors, OutputMode::kOverwrite,
                   run.Out(operands.out, shape.tokens, width));
}

void RunUnpadded(const Run& run, const Operands& operands, MapShape shape) {
  const int64_t rows = run[operands.rows].dim(0), width = run[operands.rows].dim(1);
  const int64_t k = rows / shape.tokens;
  const auto row_ids = run.Indices(operands.sorted, -1, rows - 1);
  std::vector<float> weights;
  if (operands.probs != kAbsent) {
    const MapSlots slots = ReadMap(run, operands.map, shape, k);
    std::vector<int32_t> tokens(slots.slot_experts.size());
    for (size_t slot = 0; slot < tokens.size(); ++slot) {
      tokens[slot] = static_cast<int32_t>(static_cast<int64_t>(slot) / k);
    }
    weights = PickProbs(run.Floats(operands.probs), shape.experts, tokens, slots.slot_experts);
    if (operands.row_probs != kAbsent) run.SetFloats(operands.row_probs, weights);
  }
  SumRows(run.context(), run.In(operands.rows, rows, width),
          {.k = k, .rows = row_ids, .weights = weights}, {},
          run.Out(operands.out, shape.tokens, width));
}

// T and E; without probs E only matters for the padded order, which does not need it.
MapShape CheckShapes(const Call& call, const Operands& operands, bool is_padded,
                     const std::vector<int64_t>& restore) {
  for (const Index matrix : {operands.rows, operands.out}) {
    call.Param(call[matrix].rank() == 2, "token matrices must have 2 dims",
               call[matrix].Describe());
  }
  const int64_t rows = call[operands.rows].dim(0);
  call.Param(call[operands.sorted].rank() == 1 && call[operands.sorted].dim(0) == rows,
             "sortedIndices must have one index a row", call[operands.sorted].Describe());
  MapShape shape{call[operands.out].dim(0), 1};
  call.ShapeIs(operands.out, {shape.tokens, call[operands.rows].dim(1)});
  call.Shape(restore.empty() || restore == call[operands.out].dims,
             "restoreShape must be the dims of unpermutedTokens", restore.size(), " values");
  for (const Index map : {operands.map, operands.probs}) {
    if (map == kAbsent) continue;
    call.RankIs(map, 2);
    shape.experts = call[map].dim(1);
    call.ShapeIs(map, {shape.tokens, shape.experts});
  }
  const int64_t unit = is_padded && operands.probs != kAbsent ? shape.experts : 1;
  call.Shape(shape.tokens > 0 && unit > 0 && rows % (is_padded ? unit : shape.tokens) == 0,
             "the rows must be a multiple of the experts with padding, else of the tokens", rows);
  if (is_padded) {
    call.ShapeIs(operands.out_index, {rows});
    call.ShapeIs(operands.token_ids, {rows});
  }
  if (operands.probs != kAbsent) call.ShapeIs(operands.row_probs, {rows});
  return shape;
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeTokenUnpermuteWithRoutingMapGetWorkspaceSize(
    const aclTensor* permutedTokens, const aclTensor* sortedIndices,
    const aclTensor* routingMapOptional, const aclTensor* probsOptional, bool paddedMode,
    const aclIntArray* restoreShapeOptional, aclTensor* unpermutedTokens, aclTensor* outIndex,
    aclTensor* permuteTokenId, aclTensor* permuteProbs, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const char* const name = "aclnnMoeTokenUnpermuteWithRoutingMap";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const auto need = [](bool is_needed) { return is_needed ? Need::kRequired : Need::kOptional; };
    const bool has_probs = probsOptional != nullptr;
    Operands operands;
    operands.rows = call.Input("permutedTokens", permutedTokens, kFloats);
    operands.sorted = call.Input("sortedIndices", sortedIndices, kI32);
    operands.map =
        call.Input("routingMap", routingMapOptional, kMaps, need(has_probs && !paddedMode));
    operands.probs = call.Input("probs", probsOptional, kFloats, Need::kOptional);
    operands.out = call.Output("unpermutedTokens", unpermutedTokens, kFloats);
    operands.out_index = call.Output("outIndex", outIndex, kI32, need(paddedMode));
    operands.token_ids = call.Output("permuteTokenId", permuteTokenId, kI32, need(paddedMode));
    operands.row_probs =
        call.Output("permuteProbs", permuteProbs, kFloats, need(has_probs && paddedMode));
    if (!has_probs) call.RequirePointer("probs or restoreShape", restoreShapeOptional);
    const std::vector<int64_t> restore = call.IntArray("restoreShape", restoreShapeOptional);
    call.CheckOperands();
    call.SameDType(operands.out, operands.rows);
    call.SameDType(operands.probs, operands.rows);
    if (has_probs) call.SameDType(operands.row_probs, operands.probs);
    const MapShape shape = CheckShapes(call, operands, paddedMode, restore);
    return [=](Run& run) {
      paddedMode ? RunPadded(run, operands, shape) : RunUnpadded(run, operands, shape);
    };
  });
}

OPST_CANN_LAUNCH(aclnnMoeTokenUnpermuteWithRoutingMap)
