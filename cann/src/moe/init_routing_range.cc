// moe_init_routing_v3: the rows of a range of experts, with the scales of their tokens or as int8.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "aclnnop/aclnn_moe_init_routing_v3.h"
#include "cann/src/moe/init_routing_rows.h"
#include "cann/src/runtime/log.h"
#include "kernels/quantize.h"
#include "opst/ops/expert_counts.h"
#include "opst/routing_plan.h"

namespace opst::cann {
namespace {

constexpr int64_t kMaxExperts = 10240;
constexpr int64_t kMaxPairedExperts = 5120;

struct RangeRouting {
  int64_t active_num;
  int64_t num_experts;
  int64_t drop_pad_mode;
  int64_t count_type;  // 1 counts, 2 pairs of expert and count
  bool counts;
  int64_t quant_mode;      // -1 none, 1 dynamic
  int64_t row_index_type;  // 0 row of each slot, 1 slot of each row
  int64_t first_expert;
  int64_t last_expert;  // one past it

  int64_t width() const { return last_expert - first_expert; }
};

struct Operands {
  Index x, expert_ids, scale, offset, out, out_rows, out_counts, out_scales;
};

void CheckAttributes(const Call& call, const RangeRouting& routing, int64_t slots) {
  call.Shape(routing.active_num == -1 || routing.active_num == slots, "activeNum must be -1 or N·K",
             routing.active_num, " for ", slots);
  call.Shape(routing.drop_pad_mode == 0, "dropPadMode must be 0", routing.drop_pad_mode);
  call.Shape(routing.count_type == 1 || routing.count_type == 2,
             "expertTokensNumType must be 1 (counts) or 2 (pairs)", routing.count_type);
  call.Shape(routing.counts, "expertTokensNumFlag must be true", "false");
  call.Shape(routing.quant_mode == -1 || routing.quant_mode == 1,
             "quantMode must be -1 (none) or 1 (dynamic)", routing.quant_mode);
  call.Shape(routing.row_index_type == 0 || routing.row_index_type == 1,
             "rowIdxType must be 0 or 1", routing.row_index_type);
  const int64_t limit = routing.count_type == 2 ? kMaxPairedExperts : kMaxExperts;
  call.Shape(routing.num_experts > 0 && routing.first_expert >= 0 && routing.width() > 0 &&
                 routing.last_expert <= std::min(routing.num_experts, limit),
             "activeExpertRange must be a range of experts, at most to 10240 (5120 with pairs)",
             "[", routing.first_expert, ", ", routing.last_expert, ") of ", routing.num_experts);
}

// The wrapper's own checks of shapes: 161002.
void CheckShapes(const Call& call, const RangeRouting& routing, const Operands& operands) {
  const auto has = [&](Index index, const std::vector<int64_t>& dims) {
    call.Param(call[index].dims == dims, Concat(call[index].name, " must fit x and expertIdx"),
               call[index].Describe());
  };
  const Operand& x = call[operands.x];
  const Operand& ids = call[operands.expert_ids];
  call.Param(x.rank() == 2 && ids.rank() == 2 && x.dim(0) == ids.dim(0),
             "x and expertIdx must be matrices with the same tokens", x.Describe(), " and ",
             ids.Describe());
  const int64_t slots = ids.dim(0) * ids.dim(1);
  if (operands.scale != kAbsent && routing.quant_mode == -1) has(operands.scale, {x.dim(0)});
  if (operands.scale != kAbsent && routing.quant_mode == 1) {
    has(operands.scale, {routing.width(), x.dim(1)});
  }
  if (operands.scale != kAbsent || routing.quant_mode == 1) has(operands.out_scales, {slots});
  has(operands.out, {slots, x.dim(1)});
  has(operands.out_rows, {slots});
  if (routing.count_type == 1) has(operands.out_counts, {routing.width()});
  if (routing.count_type == 2) has(operands.out_counts, {routing.num_experts, 2});
}

// The plan of the slots in range; ids outside, and finished tokens behind the last expert, have no
// row.
RoutingPlan PlanOf(const Run& run, const RangeRouting& routing, const Operands& operands) {
  std::vector<int32_t> ids = run.Indices(operands.expert_ids, 0, routing.num_experts);
  std::replace(ids.begin(), ids.end(), static_cast<int32_t>(routing.num_experts), -1);
  std::vector<float> weights(ids.size(), 0.0f);
  const int64_t k = run[operands.expert_ids].dim(1);
  return BuildRoutingPlan(run.context(), std::move(ids), std::move(weights), k, routing.num_experts,
                          {.active_experts = {routing.first_expert, routing.last_expert}});
}

void WriteCounts(const Run& run, const RangeRouting& routing, const Operands& operands,
                 const RoutingPlan& plan) {
  const auto out = run.Span<int64_t>(operands.out_counts);
  if (routing.count_type == 1) {
    std::copy_n(plan.expert_counts.begin() + routing.first_expert, routing.width(), out.begin());
    return;
  }
  const int64_t pairs = std::min(routing.width() + 1, routing.num_experts);
  std::fill_n(out.begin(), 2 * pairs, 0);
  auto next = out.begin();
  for (const auto& [expert, count] : NonEmptyExperts(plan.expert_counts)) {
    *next++ = expert;
    *next++ = count;
  }
}

// CANN's example asks for int8 rows of an f32 x without quantisation; they are rounded.
void GatherRounded(const Run& run, const Operands& operands, const ExpandedRows& rows) {
  Log(ACL_WARNING,
      Concat("[", run.name(), "] expandedXOut is int8 without quantisation: values of ",
             "x are rounded"));
  const std::vector<float> x = run.Floats(operands.x);
  const auto width = static_cast<size_t>(run[operands.x].dim(1));
  int8_t* const out = run.Span<int8_t>(operands.out).data();
  for (size_t row = 0; row < rows.tokens.size(); ++row) {
    ToInt8(&x[static_cast<size_t>(rows.tokens[row]) * width], width, 1, 0, out + row * width);
  }
}

void RunRange(const Run& run, const RangeRouting& routing, const Operands& operands) {
  const RoutingPlan plan = PlanOf(run, routing, operands);
  const auto& row_numbers = routing.row_index_type == 0 ? plan.slot_to_row : plan.row_to_slot;
  std::copy(row_numbers.begin(), row_numbers.end(), run.Span<int32_t>(operands.out_rows).begin());
  WriteCounts(run, routing, operands, plan);
  ExpandedRows rows;
  for (const int32_t slot : plan.row_to_slot) {
    rows.tokens.push_back(slot / static_cast<int32_t>(plan.top_k));
    rows.experts.push_back(plan.expert_ids[static_cast<size_t>(slot)]);
  }
  if (routing.quant_mode == 1) {
    const bool is_smooth = operands.scale != kAbsent;
    GatherDynamic(run, operands.x, rows, operands.scale,
                  is_smooth ? SmoothRows::kPerExpert : SmoothRows::kNone, routing.first_expert,
                  operands.out, operands.out_scales);
    return;
  }
  if (run[operands.out].dtype == run[operands.x].dtype) {
    GatherRows(run, operands.x, rows, operands.out);
  } else {
    GatherRounded(run, operands, rows);
  }
  if (operands.scale == kAbsent) return;
  const auto scales = run.Span<const float>(operands.scale);
  const auto out_scales = run.Span<float>(operands.out_scales);
  for (size_t row = 0; row < rows.tokens.size(); ++row) {
    out_scales[row] = scales[static_cast<size_t>(rows.tokens[row])];
  }
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeInitRoutingV3GetWorkspaceSize(
    const aclTensor* x, const aclTensor* expertIdx, const aclTensor* scaleOptional,
    const aclTensor* offsetOptional, int64_t activeNum, int64_t /*expertCapacity*/,
    int64_t expertNum, int64_t dropPadMode, int64_t expertTokensNumType, bool expertTokensNumFlag,
    int64_t quantMode, const aclIntArray* activeExpertRangeOptional, int64_t rowIdxType,
    const aclTensor* expandedXOut, const aclTensor* expandedRowIdxOut,
    const aclTensor* expertTokensCountOrCumsumOut, const aclTensor* expandedScaleOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeInitRoutingV3", workspaceSize, executor, [&](Call& call) -> Body {
    Operands operands{};
    operands.x = call.Input("x", x, kFloatsOrInt8);
    operands.expert_ids = call.Input("expertIdx", expertIdx, kI32);
    operands.scale = call.Input("scale", scaleOptional, kF32, Need::kOptional);
    operands.offset = call.Input("offset", offsetOptional, kF32, Need::kOptional);
    operands.out = call.Output("expandedXOut", expandedXOut, kFloatsOrInt8);
    operands.out_rows = call.Output("expandedRowIdxOut", expandedRowIdxOut, kI32);
    operands.out_counts =
        call.Output("expertTokensCountOrCumsumOut", expertTokensCountOrCumsumOut, kI64);
    operands.out_scales = call.Output("expandedScaleOut", expandedScaleOut, kF32);
    std::vector<int64_t> range = call.IntArray("activeExpertRange", activeExpertRangeOptional);
    call.CheckOperands();
    if (activeExpertRangeOptional == nullptr) range = {0, expertNum};
    call.Param(range.size() == 2, "activeExpertRange must have 2 values", range.size());
    const RangeRouting routing{
        activeNum,  expertNum, dropPadMode, expertTokensNumType, expertTokensNumFlag, quantMode,
        rowIdxType, range[0],  range[1]};
    CheckShapes(call, routing, operands);
    CheckAttributes(call, routing, call[operands.expert_ids].num_elements());
    const aclDataType from = call[operands.x].dtype, to = call[operands.out].dtype;
    call.Param(quantMode != 1 || (from != ACL_INT8 && to == ACL_INT8),
               "quantisation must turn floats into int8", call[operands.x].Describe(), " and ",
               call[operands.out].Describe());
    call.Param(quantMode == 1 || from == to || to == ACL_INT8,
               "expandedXOut must have the dtype of x", call[operands.out].Describe());
    return [=](Run& run) { RunRange(run, routing, operands); };
  });
}

OPST_CANN_LAUNCH(aclnnMoeInitRoutingV3)
