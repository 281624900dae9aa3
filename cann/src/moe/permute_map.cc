// CANN's token_permute by a routing map, with and without padding, and its gradients.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "aclnnop/aclnn_moe_token_permute_with_routing_map.h"
#include "aclnnop/aclnn_moe_token_permute_with_routing_map_grad.h"
#include "cann/src/moe/permute_ranges.h"
#include "cann/src/moe/routing_map.h"
#include "cann/src/moe/row_moves.h"
#include "opst/ops/sparse_rows.h"

namespace opst::cann {
namespace {

struct Permuted {
  Index tokens = kAbsent;
  Index map = kAbsent;
  Index probs = kAbsent;
  Index out = kAbsent;
  Index out_probs = kAbsent;
  Index sorted = kAbsent;
};

// Per expert the first `capacity` tokens: the routed ones ascending, then the others ascending.
void FillPadded(const std::vector<int64_t>& routed, MapShape shape, int64_t capacity,
                std::vector<int32_t>& row_tokens, std::vector<int32_t>& row_experts) {
  for (int64_t expert = 0; expert < shape.experts; ++expert) {
    int64_t room = capacity;
    for (const bool wanted : {true, false}) {
      for (int64_t token = 0; token < shape.tokens && room > 0; ++token) {
        const bool is_routed = routed[static_cast<size_t>(token * shape.experts + expert)] != 0;
        if (is_routed != wanted) continue;
        row_tokens.push_back(static_cast<int32_t>(token));
        row_experts.push_back(static_cast<int32_t>(expert));
        --room;
      }
    }
  }
}

void RunPermute(const Run& run, const Permuted& operands, MapShape shape, int64_t per_unit,
                bool pads) {
  std::vector<int32_t> row_tokens, row_experts;
  const auto sorted = run.Span<int32_t>(operands.sorted);
  if (pads) {
    FillPadded(run.Ints(operands.map), shape, per_unit, row_tokens, row_experts);
    std::copy(row_tokens.begin(), row_tokens.end(), sorted.begin());
  } else {
    MapSlots slots = ReadMap(run, operands.map, shape, per_unit);
    std::copy(slots.slot_rows.begin(), slots.slot_rows.end(), sorted.begin());
    row_tokens = std::move(slots.row_tokens);
    row_experts = std::move(slots.row_experts);
  }
  if (operands.probs != kAbsent) {
    run.SetFloats(operands.out_probs,
                  PickProbs(run.Floats(operands.probs), shape.experts, row_tokens, row_experts));
  }
  const int64_t width = run[operands.tokens].dim(1);
  const auto rows = static_cast<int64_t>(row_tokens.size());
  if (rows == 0 || width == 0) return;
  const ConstTensorView tokens = run.In(operands.tokens, shape.tokens, width);
  SparseGather(run.context(), tokens, ConstTensorView(row_tokens.data(), Shape{rows}),
               TensorView(run.data(operands.out), tokens.dtype(), Shape{rows, width}));
}

struct Gradients {
  Index gradient = kAbsent;
  Index d_row_probs = kAbsent;
  Index sorted = kAbsent;
  Index map = kAbsent;
  Index d_tokens = kAbsent;
  Index d_probs = kAbsent;
};

void RunPadded(const Run& run, const Gradients& operands, MapShape shape) {
  const int64_t rows = run[operands.gradient].dim(0), width = run[operands.gradient].dim(1);
  const auto tokens = run.Indices(operands.sorted, 0, shape.tokens - 1);
  if (width > 0) {
    SparseScatterAdd(run.context(), run.In(operands.gradient, rows, width),
                     ConstTensorView(tokens.data(), Shape{rows}), {}, OutputMode::kOverwrite,
                     run.Out(operands.d_tokens, shape.tokens, width));
  }
  if (operands.d_row_probs == kAbsent) return;
  const std::vector<float> given = run.Floats(operands.d_row_probs);
  std::vector<float> result(static_cast<size_t>(shape.tokens * shape.experts), 0.0f);
  const int64_t capacity = std::max<int64_t>(rows / shape.experts, 1);
  for (size_t row = 0; row < given.size(); ++row) {
    const int64_t expert = static_cast<int64_t>(row) / capacity;
    result[static_cast<size_t>(tokens[row] * shape.experts + expert)] = given[row];
  }
  run.SetFloats(operands.d_probs, result);
}

void RunUnpadded(const Run& run, const Gradients& operands, MapShape shape) {
  const int64_t rows = run[operands.gradient].dim(0), width = run[operands.gradient].dim(1);
  const int64_t k = rows / shape.tokens;
  const auto row_ids = run.Indices(operands.sorted, -1, rows - 1);
  SumRows(run.context(), run.In(operands.gradient, rows, width), {.k = k, .rows = row_ids}, {},
          run.Out(operands.d_tokens, shape.tokens, width));
  if (operands.d_row_probs == kAbsent) return;
  const std::vector<float> given = run.Floats(operands.d_row_probs);
  const MapSlots slots = ReadMap(run, operands.map, shape, k);
  std::vector<float> result(static_cast<size_t>(shape.tokens * shape.experts), 0.0f);
  for (size_t row = 0; row < slots.row_tokens.size(); ++row) {
    result[static_cast<size_t>(slots.row_tokens[row] * shape.experts + slots.row_experts[row])] =
        given[row];
  }
  run.SetFloats(operands.d_probs, result);
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeTokenPermuteWithRoutingMapGetWorkspaceSize(
    const aclTensor* tokens, const aclTensor* routingMap, const aclTensor* probsOptional,
    int64_t numOutTokens, bool dropAndPad, aclTensor* permuteTokensOut,
    aclTensor* permuteProbsOutOptional, aclTensor* sortedIndicesOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const char* const name = "aclnnMoeTokenPermuteWithRoutingMap";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    Permuted operands;
    operands.tokens = call.Input("tokens", tokens, kFloats);
    operands.map = call.Input("routingMap", routingMap, kMaps);
    operands.probs = call.Input("probs", probsOptional, kFloats, Need::kOptional);
    operands.out = call.Output("permuteTokensOut", permuteTokensOut, kFloats);
    operands.out_probs = call.Output("permuteProbsOut", permuteProbsOutOptional, kFloats,
                                     probsOptional ? Need::kRequired : Need::kOptional);
    operands.sorted = call.Output("sortedIndicesOut", sortedIndicesOut, kI32);
    call.CheckOperands();
    call.SameDType(operands.out, operands.tokens);
    call.SameDType(operands.probs, operands.tokens);
    call.SameDType(operands.out_probs, operands.probs);
    const auto& map = call[operands.map];
    call.Param(map.rank() == 2, "routingMap must be [T,E]", map.Describe());
    const MapShape shape{map.dim(0), map.dim(1)};
    call.Param(operands.probs == kAbsent || call[operands.probs].dims == map.dims,
               "probs must be [T,E]", map.Describe());
    call.Shape(call[operands.tokens].rank() == 2 && call[operands.tokens].dim(0) == shape.tokens,
               "tokens must be [T,H]", call[operands.tokens].Describe());
    call.Param(numOutTokens >= 0 && numOutTokens <= map.num_elements(),
               "numOutTokens must be 0 to T·E", numOutTokens, " for ", map.Describe());
    const int64_t unit = std::max<int64_t>(dropAndPad ? shape.experts : shape.tokens, 1);
    const int64_t per_unit = numOutTokens / unit;
    const std::vector<int64_t> dims = {per_unit * unit, call[operands.tokens].dim(1)};
    call.Param(call[operands.out].dims == dims,
               "permuteTokensOut must have the rows of numOutTokens", call[operands.out].Describe(),
               " for ", dims[0], " rows");
    call.Shape(dropAndPad || per_unit < kMaxPermuteChoices,
               "a token must have less than 512 experts", per_unit);
    call.CountIs(operands.out_probs, dims[0]);
    call.ShapeIs(operands.sorted, {dims[0]});
    return [=](Run& run) { RunPermute(run, operands, shape, per_unit, dropAndPad); };
  });
}

aclnnStatus aclnnMoeTokenPermuteWithRoutingMapGradGetWorkspaceSize(
    const aclTensor* permutedTokenOutputGrad, const aclTensor* permutedProbsOutputGradOptional,
    const aclTensor* sortedIndices, const aclTensor* routingMapOptional, int64_t numExperts,
    int64_t tokensNum, bool dropAndPad, aclTensor* tokensGradOut, aclTensor* probsGradOutOptional,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnMoeTokenPermuteWithRoutingMapGrad";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const bool has_probs = permutedProbsOutputGradOptional != nullptr;
    const bool needs_map = has_probs && !dropAndPad;
    Gradients operands;
    operands.gradient = call.Input("permutedTokenOutputGrad", permutedTokenOutputGrad, kFloats);
    operands.d_row_probs = call.Input("permutedProbsOutputGrad", permutedProbsOutputGradOptional,
                                      kFloats, Need::kOptional);
    operands.sorted = call.Input("sortedIndices", sortedIndices, kI32);
    operands.map = call.Input("routingMap", routingMapOptional, kMaps,
                              needs_map ? Need::kRequired : Need::kOptional);
    operands.d_tokens = call.Output("tokensGradOut", tokensGradOut, kFloats);
    operands.d_probs = call.Output("probsGradOut", probsGradOutOptional, kFloats,
                                   has_probs ? Need::kRequired : Need::kOptional);
    call.CheckOperands();
    call.SameDType(operands.d_row_probs, operands.gradient);
    call.SameDType(operands.d_tokens, operands.gradient);
    if (has_probs) call.SameDType(operands.d_probs, operands.gradient);
    call.Param(numExperts > 0 && tokensNum > 0, "numExperts and tokensNum must be positive",
               numExperts, " and ", tokensNum);
    call.Param(call[operands.gradient].rank() == 2, "permutedTokenOutputGrad must have 2 dims",
               call[operands.gradient].Describe());
    const int64_t rows = call[operands.gradient].dim(0);
    const MapShape shape{tokensNum, numExperts};
    call.Shape(rows % (dropAndPad ? numExperts : tokensNum) == 0,
               "the rows must be a multiple of the experts with padding, else of the tokens", rows);
    call.ShapeIs(operands.sorted, {rows});
    call.ShapeIs(operands.d_row_probs, {rows});
    call.ShapeIs(operands.map, {tokensNum, numExperts});
    call.ShapeIs(operands.d_tokens, {tokensNum, call[operands.gradient].dim(1)});
    if (has_probs) call.ShapeIs(operands.d_probs, {tokensNum, numExperts});
    return [=](Run& run) {
      dropAndPad ? RunPadded(run, operands, shape) : RunUnpadded(run, operands, shape);
    };
  });
}

OPST_CANN_LAUNCH(aclnnMoeTokenPermuteWithRoutingMap)
OPST_CANN_LAUNCH(aclnnMoeTokenPermuteWithRoutingMapGrad)
