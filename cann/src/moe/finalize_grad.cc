// The gradients of CANN's finalize routing: to the expert rows and to the scales.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "aclnnop/aclnn_moe_finalize_routing_v2_grad.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/moe/row_moves.h"

namespace opst::cann {
namespace {

struct Operands {
  Index gradient, row_ids, rows, scales, expert_ids, bias, d_rows, d_scales;
};

struct Attributes {
  int64_t drop_pad_mode;
  int64_t active_num;
  int64_t num_experts;
  int64_t capacity;
};

int64_t ChoicesOf(const Call& call, const Operands& operands) {
  return operands.scales == kAbsent ? 1 : call[operands.scales].dims.back();
}

void CheckRows(const Call& call, const Operands& operands, const Attributes& attributes,
               int64_t slots, int64_t width) {
  const int64_t active = attributes.active_num;
  const int64_t rows = active > 0 && active < slots ? active : slots;
  for (const Index index : {operands.rows, operands.d_rows}) {
    if (attributes.drop_pad_mode == 0) {
      call.ShapeIs(index, {rows, width});
    } else {
      call.ShapeIs(index, {attributes.num_experts, attributes.capacity, width});
    }
  }
}

void CheckShapes(const Call& call, const Operands& operands, const Attributes& attributes) {
  call.Shape(attributes.drop_pad_mode == 0 || attributes.drop_pad_mode == 1,
             "dropPadMode must be 0 or 1", attributes.drop_pad_mode);
  call.Shape(
      attributes.drop_pad_mode == 0 || (attributes.num_experts > 0 && attributes.capacity > 0),
      "with dropPadMode 1 expertNum and expertCapacity must be positive", attributes.num_experts,
      " and ", attributes.capacity);
  call.RankIs(operands.gradient, 2);
  call.RankIs(operands.row_ids, 1);
  call.RankIs(operands.scales, 2);
  const int64_t tokens = call[operands.gradient].dim(0), width = call[operands.gradient].dim(1);
  const int64_t k = ChoicesOf(call, operands);
  call.ShapeIs(operands.row_ids, {tokens * k});
  call.ShapeIs(operands.scales, {tokens, k});
  call.ShapeIs(operands.expert_ids, {tokens, k});
  CheckRows(call, operands, attributes, tokens * k, width);
  if (operands.scales != kAbsent) {
    call.ShapeIs(operands.d_scales, {tokens, k});
    call.Shape(operands.rows != kAbsent, "scales must come with expandedX", "scales alone");
  }
  if (operands.bias == kAbsent) return;
  call.RankIs(operands.bias, 2);
  call.Shape(operands.expert_ids != kAbsent, "bias must come with expertIdx", "bias alone");
  const int64_t experts = call[operands.bias].dim(0);
  call.Shape(experts > 0 && call[operands.bias].dim(1) == width &&
                 (attributes.drop_pad_mode == 0 || experts == attributes.num_experts),
             "bias must be [E,H]", call[operands.bias].Describe());
}

void RunGradients(const Run& run, const Operands& operands, const Attributes& attributes,
                  int64_t k) {
  const int64_t tokens = run[operands.gradient].dim(0), width = run[operands.gradient].dim(1);
  if (width == 0) return;
  const int64_t rows = run[operands.d_rows].num_elements() / width;
  const bool is_padded = attributes.drop_pad_mode == 1;
  std::vector<int32_t> row_ids =
      run.Indices(operands.row_ids, -1, (is_padded ? rows : std::max(rows, tokens * k)) - 1);
  for (int32_t& row : row_ids) row = row < rows ? row : -1;
  const std::vector<float> weights = run.Floats(operands.scales);
  RowUse use{.k = k, .rows = row_ids, .weights = weights};
  const ConstTensorView gradient = run.In(operands.gradient, tokens, width);
  SpreadRows(run.context(), gradient, use, is_padded ? UnusedRows::kBecomeZero : UnusedRows::kStay,
             run.Out(operands.d_rows, rows, width));
  if (operands.scales == kAbsent) return;
  std::vector<int32_t> experts;
  if (operands.bias != kAbsent) {
    experts = run.Indices(operands.expert_ids, 0, run[operands.bias].dim(0) - 1);
    use.bias = run.In(operands.bias, run[operands.bias].dim(0), width);
    use.bias_rows = experts;
  }
  run.SetFloats(operands.d_scales,
                DotRows(run.context(), run.In(operands.rows, rows, width), use, gradient));
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeFinalizeRoutingV2GradGetWorkspaceSize(
    const aclTensor* gradY, const aclTensor* expandedRowIdx, const aclTensor* expandedXOptional,
    const aclTensor* scalesOptional, const aclTensor* expertIdxOptional,
    const aclTensor* biasOptional, int64_t dropPadMode, int64_t activeNum, int64_t expertNum,
    int64_t expertCapacity, const aclTensor* gradExpandedXOut, const aclTensor* gradScalesOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Attributes attributes{dropPadMode, activeNum, expertNum, expertCapacity};
  const char* const name = "aclnnMoeFinalizeRoutingV2Grad";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    Operands operands{};
    operands.gradient = call.Input("gradY", gradY, kFloats);
    operands.row_ids = call.Input("expandedRowIdx", expandedRowIdx, kI32);
    operands.rows = call.Input("expandedX", expandedXOptional, kFloats, Need::kOptional);
    operands.scales = call.Input("scales", scalesOptional, kFloats, Need::kOptional);
    operands.expert_ids = call.Input("expertIdx", expertIdxOptional, kI32, Need::kOptional);
    operands.bias = call.Input("bias", biasOptional, kFloats, Need::kOptional);
    operands.d_rows = call.Output("gradExpandedXOut", gradExpandedXOut, kFloats);
    operands.d_scales = call.Output("gradScalesOut", gradScalesOut, kFloats,
                                    scalesOptional == nullptr ? Need::kOptional : Need::kRequired);
    call.CheckOperands();
    for (const Index index : {operands.rows, operands.scales, operands.bias, operands.d_rows}) {
      call.SameDType(index, operands.gradient);
    }
    call.SameDType(operands.d_scales, operands.scales);
    CheckShapes(call, operands, attributes);
    const int64_t k = ChoicesOf(call, operands);
    return [=](Run& run) { RunGradients(run, operands, attributes, k); };
  });
}

OPST_CANN_LAUNCH(aclnnMoeFinalizeRoutingV2Grad)
