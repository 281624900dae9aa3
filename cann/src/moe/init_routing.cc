// The first version of init routing and its quantised form: slots are numbered choice by choice
// (j·N + t), and activeNum counts tokens.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "aclnnop/aclnn_moe_init_routing.h"
#include "aclnnop/aclnn_moe_init_routing_quant.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/moe/quantize.h"
#include "cann/src/moe/row_order.h"
#include "kernels/rows.h"
#include "ops/permute/row_blocks.h"
#include "opst/ops/sparse_rows.h"

namespace opst::cann {
namespace {

struct Operands {
  Index x, row_ids, expert_ids, out, out_rows, out_experts;
};

Operands Declare(Call& call, const aclTensor* x, const aclTensor* row_ids,
                 const aclTensor* expert_ids, DataTypes out_dtypes, const aclTensor* out,
                 const aclTensor* out_rows, const aclTensor* out_experts) {
  Operands operands{};
  operands.x = call.Input("x", x, kFloats);
  operands.row_ids = call.Input("rowIdx", row_ids, kI32);
  operands.expert_ids = call.Input("expertIdx", expert_ids, kI32);
  operands.out = call.Output("expandedXOut", out, out_dtypes);
  operands.out_rows = call.Output("expandedRowIdxOut", out_rows, kI32);
  operands.out_experts = call.Output("expandedExpertIdxOut", out_experts, kI32);
  return operands;
}

void CheckShapes(Call& call, const Operands& operands, int64_t active_num) {
  call.RankIs(operands.x, 2);
  call.RankIs(operands.expert_ids, 2);
  const Operand& x = call[operands.x];
  const Operand& ids = call[operands.expert_ids];
  call.Shape(call[operands.row_ids].dims == ids.dims, "rowIdx must have expertIdx's dims",
             call[operands.row_ids].Describe(), " and ", ids.Describe());
  call.Shape(x.dim(0) == ids.dim(0), "x and expertIdx must have the same tokens", x.Describe(),
             " and ", ids.Describe());
  call.Shape(active_num >= 0, "activeNum must not be negative", active_num);
  const int64_t slots = ids.dim(0) * ids.dim(1);
  call.ShapeIs(operands.out, {std::min(x.dim(0), active_num) * ids.dim(1), x.dim(1)});
  call.ShapeIs(operands.out_rows, {slots});
  call.ShapeIs(operands.out_experts, {slots});
}

// Writes the two index outputs and returns the token of every row of expandedX.
std::vector<int32_t> Route(const Run& run, const Operands& operands) {
  const int64_t tokens = run[operands.x].dim(0);
  const auto ids = run.Indices(operands.expert_ids, 0, kLargestId);
  const auto slots = static_cast<int64_t>(ids.size());
  const auto row_ids = run.Indices(operands.row_ids, 0, slots - 1);
  const RowOrder order = OrderById(run, ids);
  const auto out_rows = run.Span<int32_t>(operands.out_rows);
  const auto out_experts = run.Span<int32_t>(operands.out_experts);
  std::vector<int32_t> row_tokens(ids.size());
  std::vector<bool> is_taken(ids.size(), false);
  for (size_t row = 0; row < ids.size(); ++row) {
    const auto slot = static_cast<size_t>(order.row_to_slot[row]);
    const int32_t source = row_ids[slot];
    run.Value(!is_taken[static_cast<size_t>(source)], "rowIdx must name every row once", source,
              " again at position ", slot);
    is_taken[static_cast<size_t>(source)] = true;
    out_experts[row] = ids[slot];
    out_rows[static_cast<size_t>(source)] = static_cast<int32_t>(row);
    row_tokens[row] = static_cast<int32_t>(source % tokens);
  }
  row_tokens.resize(static_cast<size_t>(run[operands.out].dim(0)));
  return row_tokens;
}

void RunPlain(const Run& run, const Operands& operands) {
  const auto row_tokens = Route(run, operands);
  const auto rows = static_cast<int64_t>(row_tokens.size());
  const int64_t width = run[operands.x].dim(1);
  if (rows == 0 || width == 0) return;
  SparseGather(run.context(), run.In(operands.x, run[operands.x].dim(0), width),
               ConstTensorView(row_tokens.data(), Shape{rows}), run.Out(operands.out, rows, width));
}

void RunQuantized(const Run& run, const Operands& operands, float scale, float offset) {
  const auto row_tokens = Route(run, operands);
  const auto rows = static_cast<int64_t>(row_tokens.size());
  const auto width = static_cast<size_t>(run[operands.x].dim(1));
  const ConstTensorView x = run.In(operands.x, run[operands.x].dim(0), static_cast<int64_t>(width));
  int8_t* const out = run.Span<int8_t>(operands.out).data();
  ForRowBlocks(run.context(), rows, kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> row(width);
    for (int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<size_t>(i);
      ConvertToFloat(x.dtype(), x.row(row_tokens[index]), width, row.data());
      QuantizeStatic(row, scale, offset, out + index * width);
    }
  });
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeInitRoutingGetWorkspaceSize(const aclTensor* x, const aclTensor* rowIdx,
                                                const aclTensor* expertIdx, int64_t activeNum,
                                                const aclTensor* expandedXOut,
                                                const aclTensor* expandedRowIdxOut,
                                                const aclTensor* expandedExpertIdxOut,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeInitRouting", workspaceSize, executor, [&](Call& call) -> Body {
    const Operands operands = Declare(call, x, rowIdx, expertIdx, kFloats, expandedXOut,
                                      expandedRowIdxOut, expandedExpertIdxOut);
    call.CheckOperands();
    call.SameDType(operands.out, operands.x);
    CheckShapes(call, operands, activeNum);
    return [=](Run& run) { RunPlain(run, operands); };
  });
}

aclnnStatus aclnnMoeInitRoutingQuantGetWorkspaceSize(
    const aclTensor* x, const aclTensor* rowIdx, const aclTensor* expertIdx, int64_t activeNum,
    double scale, double offset, const aclTensor* expandedXOut, const aclTensor* expandedRowIdxOut,
    const aclTensor* expandedExpertIdxOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeInitRoutingQuant", workspaceSize, executor, [&](Call& call) -> Body {
    const Operands operands = Declare(call, x, rowIdx, expertIdx, kI8, expandedXOut,
                                      expandedRowIdxOut, expandedExpertIdxOut);
    call.CheckOperands();
    CheckShapes(call, operands, activeNum);
    return [=](Run& run) {
      RunQuantized(run, operands, static_cast<float>(scale), static_cast<float>(offset));
    };
  });
}

OPST_CANN_LAUNCH(aclnnMoeInitRouting)
OPST_CANN_LAUNCH(aclnnMoeInitRoutingQuant)
