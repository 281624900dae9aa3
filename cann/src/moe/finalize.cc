// CANN's finalize routing, both versions: one sum over indexed rows, in either numbering of slots.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "aclnnop/aclnn_moe_finalize_routing.h"
#include "aclnnop/aclnn_moe_finalize_routing_v2.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/moe/row_moves.h"

namespace opst::cann {
namespace {

struct Operands {
  Index rows = kAbsent;
  Index row_ids = kAbsent;
  Index residual = kAbsent;
  Index second_residual = kAbsent;
  Index bias = kAbsent;
  Index scales = kAbsent;
  Index expert_ids = kAbsent;
  Index out = kAbsent;
};

// dropPadMode: 0, 1 number slots choice by choice, 2, 3 token by token; 1 and 3 have padded rows.
struct Mode {
  bool by_token;
  bool is_padded;
};

int64_t ChoicesOf(const Call& call, const Operands& operands) {
  return operands.scales == kAbsent ? 1 : call[operands.scales].dims.back();
}

void CheckShapes(const Call& call, const Operands& operands, Mode mode) {
  call.RankIs(operands.rows, mode.is_padded ? 3 : 2);
  call.RankIs(operands.out, 2);
  call.RankIs(operands.row_ids, 1);
  call.RankIs(operands.scales, 2);
  call.RankIs(operands.bias, 2);
  const int64_t tokens = call[operands.out].dim(0), width = call[operands.out].dim(1);
  const int64_t k = ChoicesOf(call, operands);
  call.Shape(call[operands.rows].dims.back() == width, "expandedX and out must have the same H",
             call[operands.rows].Describe(), " and ", call[operands.out].Describe());
  call.ShapeIs(operands.row_ids, {tokens * k});
  for (const Index residual : {operands.residual, operands.second_residual}) {
    call.ShapeIs(residual, {tokens, width});
  }
  call.ShapeIs(operands.scales, {tokens, k});
  call.ShapeIs(operands.expert_ids, {tokens, k});
  call.Shape(operands.second_residual == kAbsent || operands.residual != kAbsent,
             "x2 must come with x1", "x2 alone");
  if (operands.bias == kAbsent) return;
  call.Shape(operands.expert_ids != kAbsent, "bias must come with expertIdx", "bias alone");
  call.ShapeIs(operands.bias, {call[operands.bias].dim(0), width});
}

// Rows by token and choice. Dropless calls may have fewer rows than slots: those behind the last
// one were not active.
std::vector<int32_t> RowsByToken(const Run& run, const Operands& operands, Mode mode, int64_t rows,
                                 int64_t k) {
  const int64_t slots = run[operands.row_ids].num_elements();
  const int64_t tokens = run[operands.out].dim(0);
  const auto given =
      run.Indices(operands.row_ids, -1, (mode.is_padded ? rows : std::max(rows, slots)) - 1);
  std::vector<int32_t> by_token(given.size());
  for (int64_t slot = 0; slot < slots; ++slot) {
    const int64_t source = mode.by_token ? slot : slot % k * tokens + slot / k;
    const int32_t row = given[static_cast<size_t>(source)];
    by_token[static_cast<size_t>(slot)] = row < rows ? row : -1;
  }
  return by_token;
}

void Finalize(const Run& run, const Operands& operands, Mode mode, int64_t k) {
  const int64_t tokens = run[operands.out].dim(0), width = run[operands.out].dim(1);
  const int64_t rows = width == 0 ? 0 : run[operands.rows].num_elements() / width;
  const auto by_token = RowsByToken(run, operands, mode, rows, k);
  const std::vector<float> weights = run.Floats(operands.scales);
  RowUse use{.k = k, .rows = by_token, .weights = weights};
  std::vector<int32_t> experts;
  if (operands.bias != kAbsent) {
    const int64_t num_experts = run[operands.bias].dim(0);
    experts = run.Indices(operands.expert_ids, 0, num_experts);
    for (size_t slot = 0; slot < experts.size(); ++slot) {
      run.Value(by_token[slot] < 0 || experts[slot] < num_experts,
                "slots with a row must have an expert of bias", experts[slot], " at position ",
                slot);
    }
    use.bias = run.In(operands.bias, num_experts, width);
    use.bias_rows = experts;
  }
  SumRows(run.context(), run.In(operands.rows, rows, width), use,
          {.residual = run.In(operands.residual, tokens, width),
           .second_residual = run.In(operands.second_residual, tokens, width)},
          run.Out(operands.out, tokens, width));
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeFinalizeRoutingGetWorkspaceSize(const aclTensor* expandedX, const aclTensor* x1,
                                                    const aclTensor* x2Optional,
                                                    const aclTensor* bias, const aclTensor* scales,
                                                    const aclTensor* expandedRowIdx,
                                                    const aclTensor* expandedExpertIdx,
                                                    const aclTensor* out, uint64_t* workspaceSize,
                                                    aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeFinalizeRouting", workspaceSize, executor, [&](Call& call) -> Body {
    Operands operands;
    operands.rows = call.Input("expandedX", expandedX, kFloats);
    operands.residual = call.Input("x1", x1, kFloats);
    operands.second_residual = call.Input("x2", x2Optional, kFloats, Need::kOptional);
    operands.bias = call.Input("bias", bias, kFloats);
    operands.scales = call.Input("scales", scales, kFloats);
    operands.row_ids = call.Input("expandedRowIdx", expandedRowIdx, kI32);
    operands.expert_ids = call.Input("expandedExpertIdx", expandedExpertIdx, kI32);
    operands.out = call.Output("out", out, kFloats);
    call.CheckOperands();
    for (const Index index : {operands.residual, operands.second_residual, operands.bias,
                              operands.scales, operands.out}) {
      call.SameDType(index, operands.rows);
    }
    const Mode mode{.by_token = false, .is_padded = false};
    CheckShapes(call, operands, mode);
    call.ShapeIs(operands.rows, {call[operands.row_ids].dim(0), call[operands.out].dim(1)});
    const int64_t k = ChoicesOf(call, operands);
    return [=](Run& run) {
      run.Indices(operands.row_ids, 0, run[operands.rows].dim(0) - 1);  // V1 drops nothing
      Finalize(run, operands, mode, k);
    };
  });
}

aclnnStatus aclnnMoeFinalizeRoutingV2GetWorkspaceSize(
    const aclTensor* expandedX, const aclTensor* expandedRowIdx, const aclTensor* x1Optional,
    const aclTensor* x2Optional, const aclTensor* biasOptional, const aclTensor* scalesOptional,
    const aclTensor* expertIdxOptional, int64_t dropPadMode, const aclTensor* out,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeFinalizeRoutingV2", workspaceSize, executor, [&](Call& call) -> Body {
    Operands operands;
    operands.rows = call.Input("expandedX", expandedX, kFloats);
    operands.row_ids = call.Input("expandedRowIdx", expandedRowIdx, kI32);
    operands.residual = call.Input("x1", x1Optional, kFloats, Need::kOptional);
    operands.second_residual = call.Input("x2", x2Optional, kFloats, Need::kOptional);
    operands.bias = call.Input("bias", biasOptional, kFloats, Need::kOptional);
    operands.scales = call.Input("scales", scalesOptional, kFloats, Need::kOptional);
    operands.expert_ids = call.Input("expertIdx", expertIdxOptional, kI32, Need::kOptional);
    operands.out = call.Output("out", out, kFloats);
    call.CheckOperands();
    for (const Index index :
         {operands.residual, operands.second_residual, operands.bias, operands.out}) {
      call.SameDType(index, operands.rows);
    }
    call.Shape(dropPadMode >= 0 && dropPadMode <= 3, "dropPadMode must be 0 to 3", dropPadMode);
    const Mode mode{.by_token = dropPadMode >= 2, .is_padded = dropPadMode % 2 == 1};
    CheckShapes(call, operands, mode);
    const int64_t k = ChoicesOf(call, operands);
    return [=](Run& run) { Finalize(run, operands, mode, k); };
  });
}

OPST_CANN_LAUNCH(aclnnMoeFinalizeRouting)
OPST_CANN_LAUNCH(aclnnMoeFinalizeRoutingV2)
