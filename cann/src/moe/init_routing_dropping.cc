// moe_init_routing_v2, its quantised form and its gradient: the parts that differ.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "aclnnop/aclnn_moe_init_routing_quant_v2.h"
#include "aclnnop/aclnn_moe_init_routing_v2.h"
#include "aclnnop/aclnn_moe_init_routing_v2_grad.h"
#include "cann/src/moe/row_moves.h"
#include "cann/src/moe/token_routing.h"

namespace opst::cann {
namespace {

TokenRoutingOperands Declare(Call& call, const TokenRouting& routing, const aclTensor* x,
                             const aclTensor* ids, DataTypes out_dtypes, const aclTensor* out,
                             const aclTensor* out_rows, const aclTensor* out_counts,
                             const aclTensor* out_all_counts) {
  const auto need = [](bool wanted) { return wanted ? Need::kRequired : Need::kOptional; };
  TokenRoutingOperands operands;
  operands.x = call.Input("x", x, kFloats);
  operands.expert_ids = call.Input("expertIdx", ids, kI32);
  operands.out = call.Output("expandedXOut", out, out_dtypes);
  operands.out_rows = call.Output("expandedRowIdxOut", out_rows, kI32);
  operands.out_counts =
      call.Output("expertTokensCountOrCumsumOut", out_counts, kI32, need(routing.wants_counts()));
  operands.out_all_counts = call.Output("expertTokensBeforeCapacityOut", out_all_counts, kI32,
                                        need(routing.wants_all_counts()));
  return operands;
}

struct Quantization {
  int64_t mode;  // 0 static, 1 dynamic
  Index scale = kAbsent;
  Index offset = kAbsent;
  Index out_scales = kAbsent;
  SmoothRows smooth = SmoothRows::kNone;
};

void CheckQuantization(const Call& call, const TokenRouting& routing, int64_t rows, int64_t width,
                       Quantization& quantization) {
  call.Shape(quantization.mode == 0 || quantization.mode == 1, "quantMode must be 0 or 1",
             quantization.mode);
  if (quantization.mode == 0) {
    call.Shape(quantization.scale != kAbsent && quantization.offset != kAbsent,
               "static quantisation must have scale and offset", "none");
    call.ShapeIs(quantization.scale, {1});
    call.ShapeIs(quantization.offset, {1});
    return;
  }
  call.ShapeIs(quantization.out_scales, {rows});
  if (quantization.scale == kAbsent) return;
  const Operand& scale = call[quantization.scale];
  const bool is_shared = scale.rank() == 2 && scale.dim(0) == 1 && scale.dim(1) == width;
  const bool is_per_expert = scale.rank() == 2 && routing.num_experts > 0 &&
                             scale.dim(0) == routing.num_experts && scale.dim(1) == width;
  call.Shape(is_shared || is_per_expert, "scale must be [1,H] or [expertNum,H]", scale.Describe());
  quantization.smooth = is_per_expert ? SmoothRows::kPerExpert : SmoothRows::kShared;
}

void RunQuantized(const Run& run, const TokenRouting& routing, const TokenRoutingOperands& operands,
                  const Quantization& quantization) {
  const ExpandedRows rows = RouteTokens(run, routing, operands);
  if (quantization.mode == 0) {
    GatherStatic(run, operands.x, rows, run.Floats(quantization.scale)[0],
                 run.Floats(quantization.offset)[0], operands.out);
    return;
  }
  if (quantization.smooth == SmoothRows::kPerExpert) {
    for (const int32_t expert : rows.experts) {
      run.Value(expert < routing.num_experts, "rows with smooth factors must have an expert",
                expert, " of ", routing.num_experts);
    }
  }
  GatherDynamic(run, operands.x, rows, quantization.scale, quantization.smooth, 0, operands.out,
                quantization.out_scales);
}

// grad_x[t] = Σ_j grad[row]; -1 and rows that were not active contribute nothing.
void SumGradients(const Run& run, Index gradient, Index row_ids, Index out, int64_t k,
                  bool is_padded) {
  const int64_t width = run[out].dim(1);
  const int64_t rows = width == 0 ? 0 : run[gradient].num_elements() / width;
  const auto slots = static_cast<int64_t>(run[row_ids].num_elements());
  std::vector<int32_t> indices =
      run.Indices(row_ids, is_padded ? -1 : 0, (is_padded ? rows : std::max(rows, slots)) - 1);
  for (int32_t& index : indices) index = index < rows ? index : -1;
  SumRows(run.context(), run.In(gradient, rows, width), {.k = k, .rows = indices}, {},
          run.Out(out, run[out].dim(0), width));
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeInitRoutingV2GetWorkspaceSize(
    const aclTensor* x, const aclTensor* expertIdx, int64_t activeNumOptional,
    int64_t expertCapacityOptional, int64_t expertNumOptional, int64_t dropPadModeOptional,
    int64_t expertTokensCountOrCumsumFlagOptional, bool expertTokensBeforeCapacityFlagOptional,
    const aclTensor* expandedXOut, const aclTensor* expandedRowIdxOut,
    const aclTensor* expertTokensCountOrCumsumOutOptional,
    const aclTensor* expertTokensBeforeCapacityOutOptional, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const TokenRouting routing{activeNumOptional,
                             expertCapacityOptional,
                             expertNumOptional,
                             dropPadModeOptional,
                             expertTokensCountOrCumsumFlagOptional,
                             expertTokensBeforeCapacityFlagOptional};
  return PrepareCall("aclnnMoeInitRoutingV2", workspaceSize, executor, [&](Call& call) -> Body {
    const TokenRoutingOperands operands =
        Declare(call, routing, x, expertIdx, kFloats, expandedXOut, expandedRowIdxOut,
                expertTokensCountOrCumsumOutOptional, expertTokensBeforeCapacityOutOptional);
    call.CheckOperands();
    call.SameDType(operands.out, operands.x);
    CheckTokenRouting(call, routing, operands);
    return [=](Run& run) {
      GatherRows(run, operands.x, RouteTokens(run, routing, operands), operands.out);
    };
  });
}

aclnnStatus aclnnMoeInitRoutingQuantV2GetWorkspaceSize(
    const aclTensor* x, const aclTensor* expertIdx, const aclTensor* scaleOptional,
    const aclTensor* offsetOptional, int64_t activeNum, int64_t expertCapacity, int64_t expertNum,
    int64_t dropPadMode, int64_t expertTokensCountOrCumsumFlag, bool expertTokensBeforeCapacityFlag,
    int64_t quantMode, const aclTensor* expandedXOut, const aclTensor* expandedRowIdxOut,
    const aclTensor* expertTokensCountOrCumsumOutOptional,
    const aclTensor* expertTokensBeforeCapacityOutOptional,
    const aclTensor* dynamicQuantScaleOutOptional, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const TokenRouting routing{activeNum,
                             expertCapacity,
                             expertNum,
                             dropPadMode,
                             expertTokensCountOrCumsumFlag,
                             expertTokensBeforeCapacityFlag};
  const char* const name = "aclnnMoeInitRoutingQuantV2";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const TokenRoutingOperands operands =
        Declare(call, routing, x, expertIdx, kI8, expandedXOut, expandedRowIdxOut,
                expertTokensCountOrCumsumOutOptional, expertTokensBeforeCapacityOutOptional);
    Quantization quantization{.mode = quantMode};
    quantization.scale = call.Input("scale", scaleOptional, kF32, Need::kOptional);
    quantization.offset = call.Input("offset", offsetOptional, kF32, Need::kOptional);
    quantization.out_scales = call.Output("dynamicQuantScaleOut", dynamicQuantScaleOutOptional,
                                          kF32, quantMode == 1 ? Need::kRequired : Need::kOptional);
    call.CheckOperands();
    const int64_t rows = CheckTokenRouting(call, routing, operands);
    CheckQuantization(call, routing, rows, call[operands.x].dim(1), quantization);
    return [=](Run& run) { RunQuantized(run, routing, operands, quantization); };
  });
}

aclnnStatus aclnnMoeInitRoutingV2GradGetWorkspaceSize(const aclTensor* gradExpandedX,
                                                      const aclTensor* expandedRowIdx, int64_t topK,
                                                      int64_t dropPadMode, int64_t activeNum,
                                                      const aclTensor* out, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeInitRoutingV2Grad", workspaceSize, executor, [&](Call& call) -> Body {
    const Index gradient = call.Input("gradExpandedX", gradExpandedX, kFloats);
    const Index row_ids = call.Input("expandedRowIdx", expandedRowIdx, kI32);
    const Index sum = call.Output("out", out, kFloats);
    call.CheckOperands();
    call.SameDType(sum, gradient);
    call.Shape(dropPadMode == 0 || dropPadMode == 1, "dropPadMode must be 0 or 1", dropPadMode);
    call.RankIs(gradient, dropPadMode == 0 ? 2 : 3);
    call.RankIs(row_ids, 1);
    const int64_t slots = call[row_ids].dim(0);
    call.Shape(topK > 0 && slots % topK == 0, "topK must be positive and divide the slots", topK,
               " of ", slots);
    call.Shape(activeNum >= 0, "activeNum must not be negative", activeNum);
    const bool is_cut = dropPadMode == 0 && activeNum > 0 && activeNum < slots;
    call.Shape(dropPadMode == 1 || call[gradient].dim(0) == (is_cut ? activeNum : slots),
               "gradExpandedX must have the active rows", call[gradient].Describe(), " for ", slots,
               " slots, activeNum ", activeNum);
    call.ShapeIs(sum, {slots / topK, call[gradient].dims.back()});
    return [=](Run& run) { SumGradients(run, gradient, row_ids, sum, topK, dropPadMode == 1); };
  });
}

OPST_CANN_LAUNCH(aclnnMoeInitRoutingV2)
OPST_CANN_LAUNCH(aclnnMoeInitRoutingQuantV2)
OPST_CANN_LAUNCH(aclnnMoeInitRoutingV2Grad)
