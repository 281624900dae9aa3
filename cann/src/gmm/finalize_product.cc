// CANN's grouped_matmul_finalize_routing in its five versions: int8 by int8 or int4 product, then
// the weighted sum per token, on top of shared rows.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "aclnnop/aclnn_grouped_matmul_finalize_routing.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v2.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_weight_nz.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_weight_nz_v2.h"
#include "cann/src/execution/call.h"
#include "cann/src/gmm/group_list.h"
#include "cann/src/gmm/int4_product.h"
#include "cann/src/gmm/matrix_product.h"
#include "cann/src/gmm/weight_matrix.h"
#include "opst/ops/sparse_rows.h"

namespace opst::cann {
namespace {

constexpr std::array kWeights = {ACL_INT8, ACL_INT32, ACL_INT4};
constexpr std::array kScales = {ACL_FLOAT, ACL_BF16, ACL_INT64};
constexpr std::array kBf16 = {ACL_BF16};

struct Arguments {
  const aclTensor *x, *weight, *scale, *bias, *offset, *antiquant_scale, *antiquant_offset;
  const aclTensor *per_token, *groups, *shared, *logit, *rows;
  int64_t dtype;
  float shared_weight;
  int64_t shared_offset;
  bool transpose_x, transpose_weight;
  int64_t list_type;
  const aclTensor* out;
  bool needs_logit;  // only the fractal versions go without
};

struct Operands {
  Index x = kAbsent, weight = kAbsent, scale = kAbsent, bias = kAbsent, offset = kAbsent;
  Index per_token = kAbsent, groups = kAbsent, shared = kAbsent, logit = kAbsent, rows = kAbsent;
  Index out = kAbsent;
  WeightShape shape;
  float shared_weight = 0;
  int64_t shared_offset = 0;
  bool is_int4 = false;
};

// What the columns of one expert add.
Int4Columns ColumnsOf(const Run& run, const Operands& operands, int64_t expert) {
  const auto part = [&](const std::vector<float>& all) {
    if (all.empty()) return all;
    const auto first = all.begin() + expert * operands.shape.columns;
    return std::vector<float>(first, first + operands.shape.columns);
  };
  return {part(ReadScales(run, operands.scale)), part(run.Floats(operands.bias)),
          part(run.Floats(operands.offset)), operands.is_int4};
}

void MultiplyGroup(const Run& run, const Operands& operands, const RowGroup& group,
                   std::vector<float>& products) {
  const WeightShape& shape = operands.shape;
  const std::vector<int8_t> weight = ReadIntWeight(run, operands.weight, shape, group.weight);
  const Int4Columns columns = ColumnsOf(run, operands, group.weight);
  const auto per_token = run.Floats(operands.per_token), logit = run.Floats(operands.logit);
  const int8_t* const x = run.Span<const int8_t>(operands.x).data() + group.begin * shape.inner;
  const IntProduct product{group.size(), shape.inner, shape.columns};
  const auto out_of = [&](int64_t row) {
    return products.data() + (group.begin + row) * shape.columns;
  };
  const auto logit_of = [&](int64_t row) {
    return logit.empty() ? 1.0f : logit[static_cast<size_t>(group.begin + row)];
  };
  const auto factor_of = [&](int64_t row) {
    const auto at = static_cast<size_t>(group.begin + row);
    return (per_token.empty() ? 1.0f : per_token[at]) * logit_of(row);
  };
  if (operands.is_int4) {
    return MultiplyInt4(run.context(), x, weight.data(), product, columns,
                        [&](int64_t row, std::span<const float> values) {
                          float* const out = out_of(row);
                          const float factor = factor_of(row);
                          for (size_t n = 0; n < values.size(); ++n) out[n] = values[n] * factor;
                        });
  }
  MultiplyInts(run.context(), x, weight.data(), product,
               [&](int64_t row, std::span<const int32_t> sums) {
                 float* const out = out_of(row);
                 for (size_t n = 0; n < sums.size(); ++n) {
                   const float bias = columns.bias.empty() ? 0.0f : columns.bias[n];
                   out[n] = static_cast<float>(sums[n]) * columns.scale[n] * factor_of(row) +
                            bias * logit_of(row);
                 }
               });
}

// Zeros, and the shared rows with their weight.
void FillShared(const Run& run, const Operands& operands) {
  const auto out = run.Span<float>(operands.out);
  std::fill(out.begin(), out.end(), 0.0f);
  const std::vector<float> shared = run.Floats(operands.shared);
  const auto first = static_cast<size_t>(operands.shared_offset * operands.shape.columns);
  for (size_t i = 0; i < shared.size(); ++i) out[first + i] = shared[i] * operands.shared_weight;
}

void RunProducts(const Run& run, const Operands& operands) {
  const int64_t rows = run[operands.x].dim(0), columns = operands.shape.columns;
  const int64_t tokens = run[operands.out].dim(0);
  const auto groups = ReadGroups(run, run.Ints(operands.groups), GroupListType::kCounts, rows,
                                 operands.shape.experts);
  const std::vector<int32_t> targets = run.Indices(operands.rows, 0, tokens - 1);
  std::vector<float> products(static_cast<size_t>(rows * columns));
  for (const RowGroup& group : groups) {
    if (group.size() > 0) MultiplyGroup(run, operands, group, products);
  }
  const int64_t used = groups.empty() ? 0 : groups.back().end;
  const auto out = run.Span<float>(operands.out);
  if (operands.logit == kAbsent) {  // rows are written, not added; the others stay
    for (int64_t row = 0; row < used; ++row) {
      const int64_t first = targets[static_cast<size_t>(row)] * columns;
      std::copy_n(products.begin() + row * columns, columns, out.begin() + first);
    }
    return;
  }
  FillShared(run, operands);
  if (used == 0) return;
  SparseScatterAdd(run.context(), ConstTensorView(products.data(), Shape{used, columns}),
                   ConstTensorView(targets.data(), Shape{used}), {}, OutputMode::kAdd,
                   TensorView(out.data(), Shape{tokens, columns}));
}

void CheckShapes(const Call& call, const Arguments& arguments, Operands& operands) {
  operands.shape = ShapeOfWeight(call[operands.weight]);
  operands.is_int4 = call[operands.weight].dtype != ACL_INT8;
  const Operand& x = call[operands.x];
  const Operand& out = call[operands.out];
  call.Param(x.rank() == 2 && x.dim(1) == operands.shape.inner && x.num_elements() > 0 &&
                 operands.shape.columns > 0,
             "x must be [M,K] and the weight [E,K,N], neither empty", x.Describe(), " and ",
             call[operands.weight].Describe());
  const int64_t rows = x.dim(0), per_expert = operands.shape.experts * operands.shape.columns;
  call.Param(out.rank() == 2 && out.dim(1) == operands.shape.columns && out.dim(0) <= rows,
             "out must be [T,N] with at most the rows of x", out.Describe());
  for (const Index index : {operands.scale, operands.bias, operands.offset}) {
    if (index == kAbsent) continue;
    call.Param(call[index].num_elements() == per_expert,
               Concat(call[index].name, " must have N numbers an expert"), call[index].Describe());
  }
  for (const Index index : {operands.per_token, operands.logit, operands.rows}) {
    if (index == kAbsent) continue;
    call.Param(call[index].num_elements() == rows,
               Concat(call[index].name, " must have one number a row"), call[index].Describe());
  }
  call.Param(call[operands.groups].num_elements() == operands.shape.experts,
             "groupList must have one count an expert", call[operands.groups].Describe());
  call.Param((call[operands.scale].dtype == ACL_INT64) == operands.is_int4,
             "scale must be i64 for int4 weights, else f32 or bf16",
             call[operands.scale].Describe());
  call.Param(!operands.is_int4 || operands.bias != kAbsent,
             "int4 weights must have the bias that makes up for their shift", "none");
  call.Param(arguments.list_type == 1, "groupListType must be 1 (counts)", arguments.list_type);
  call.Param(arguments.dtype == 0 && !arguments.transpose_x && !arguments.transpose_weight,
             "dtype must be 0 and nothing transposed", arguments.dtype);
  if (operands.shared == kAbsent) return;
  const Operand& shared = call[operands.shared];
  call.Param(shared.rank() == 2 && shared.dim(1) == operands.shape.columns &&
                 operands.shared_offset >= 0 &&
                 operands.shared_offset + shared.dim(0) <= out.dim(0),
             "sharedInput must be [B,N] and end inside out", shared.Describe(), " from row ",
             operands.shared_offset);
}

aclnnStatus Prepare(const char* name, const Arguments& arguments, uint64_t* workspace_size,
                    aclOpExecutor** executor) {
  return PrepareCall(name, workspace_size, executor, [&](Call& call) -> Body {
    const auto need = arguments.needs_logit ? Need::kRequired : Need::kOptional;
    Operands operands;
    operands.x = call.Input("x", arguments.x, kI8);
    operands.weight = call.Input("weight", arguments.weight, kWeights);
    operands.scale = call.Input("scale", arguments.scale, kScales);
    operands.bias = call.Input("bias", arguments.bias, kFloats, Need::kOptional);
    operands.offset = call.Input("offset", arguments.offset, kF32, Need::kOptional);
    operands.per_token = call.Input("pertokenScale", arguments.per_token, kF32, Need::kOptional);
    operands.groups = call.Input("groupList", arguments.groups, kI64);
    operands.shared = call.Input("sharedInput", arguments.shared, kBf16, need);
    operands.logit = call.Input("logit", arguments.logit, kF32, need);
    operands.rows = call.Input("rowIndex", arguments.rows, kI32OrI64);
    operands.out = call.Output("out", arguments.out, kF32);
    operands.shared_weight = arguments.shared_weight;
    operands.shared_offset = arguments.shared_offset;
    call.CheckOperands();
    call.Param(arguments.antiquant_scale == nullptr && arguments.antiquant_offset == nullptr,
               "antiquant tensors must be null", "a tensor");
    call.Param((operands.shared == kAbsent) == (operands.logit == kAbsent),
               "sharedInput and logit must come together", "one of them");
    CheckShapes(call, arguments, operands);
    return [=](Run& run) { RunProducts(run, operands); };
  });
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnGroupedMatmulFinalizeRoutingGetWorkspaceSize(
    const aclTensor* x, aclTensor* w, const aclTensor* scaleOptional, const aclTensor* biasOptional,
    const aclTensor* pertokenScaleOptional, const aclTensor* groupListOptional,
    const aclTensor* sharedInputOptional, const aclTensor* logitOptional,
    const aclTensor* rowIndexOptional, int64_t dtype, float sharedInputWeight,
    int64_t sharedInputOffset, bool transposeX, bool transposeW, int64_t groupListType,
    aclTensor* y, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare("aclnnGroupedMatmulFinalizeRouting",
                 {x,
                  w,
                  scaleOptional,
                  biasOptional,
                  nullptr,
                  nullptr,
                  nullptr,
                  pertokenScaleOptional,
                  groupListOptional,
                  sharedInputOptional,
                  logitOptional,
                  rowIndexOptional,
                  dtype,
                  sharedInputWeight,
                  sharedInputOffset,
                  transposeX,
                  transposeW,
                  groupListType,
                  y,
                  true},
                 workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulFinalizeRoutingV2GetWorkspaceSize(
    const aclTensor* x1, aclTensor* x2, const aclTensor* scaleOptional,
    const aclTensor* biasOptional, const aclTensor* offsetOptional,
    const aclTensor* antiquantScaleOptional, const aclTensor* antiquantOffsetOptional,
    const aclTensor* pertokenScaleOptional, const aclTensor* groupListOptional,
    const aclTensor* sharedInputOptional, const aclTensor* logitOptional,
    const aclTensor* rowIndexOptional, int64_t dtype, float sharedInputWeight,
    int64_t sharedInputOffset, bool transposeX, bool transposeW, int64_t groupListType,
    aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare("aclnnGroupedMatmulFinalizeRoutingV2",
                 {x1,
                  x2,
                  scaleOptional,
                  biasOptional,
                  offsetOptional,
                  antiquantScaleOptional,
                  antiquantOffsetOptional,
                  pertokenScaleOptional,
                  groupListOptional,
                  sharedInputOptional,
                  logitOptional,
                  rowIndexOptional,
                  dtype,
                  sharedInputWeight,
                  sharedInputOffset,
                  transposeX,
                  transposeW,
                  groupListType,
                  out,
                  true},
                 workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
    const aclTensor* x1, aclTensor* x2, const aclTensor* scaleOptional,
    const aclTensor* biasOptional, const aclTensor* offsetOptional,
    const aclTensor* antiquantScaleOptional, const aclTensor* antiquantOffsetOptional,
    const aclTensor* pertokenScaleOptional, const aclTensor* groupListOptional,
    const aclTensor* sharedInputOptional, const aclTensor* logitOptional,
    const aclTensor* rowIndexOptional, int64_t dtype, float sharedInputWeight,
    int64_t sharedInputOffset, bool transposeX, bool transposeW, int64_t groupListType,
    const aclIntArray* /*tuningConfigOptional*/, aclTensor* out, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare("aclnnGroupedMatmulFinalizeRoutingV3",
                 {x1,
                  x2,
                  scaleOptional,
                  biasOptional,
                  offsetOptional,
                  antiquantScaleOptional,
                  antiquantOffsetOptional,
                  pertokenScaleOptional,
                  groupListOptional,
                  sharedInputOptional,
                  logitOptional,
                  rowIndexOptional,
                  dtype,
                  sharedInputWeight,
                  sharedInputOffset,
                  transposeX,
                  transposeW,
                  groupListType,
                  out,
                  true},
                 workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulFinalizeRoutingWeightNzGetWorkspaceSize(
    const aclTensor* x1, const aclTensor* x2, const aclTensor* scale, const aclTensor* bias,
    const aclTensor* pertokenScaleOptional, const aclTensor* groupList,
    const aclTensor* sharedInput, const aclTensor* logit, const aclTensor* rowIndex, int64_t dtype,
    float sharedInputWeight, int64_t sharedInputOffset, bool transposeX, bool transposeW,
    int64_t groupListType, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare("aclnnGroupedMatmulFinalizeRoutingWeightNz",
                 {x1,
                  x2,
                  scale,
                  bias,
                  nullptr,
                  nullptr,
                  nullptr,
                  pertokenScaleOptional,
                  groupList,
                  sharedInput,
                  logit,
                  rowIndex,
                  dtype,
                  sharedInputWeight,
                  sharedInputOffset,
                  transposeX,
                  transposeW,
                  groupListType,
                  out,
                  false},
                 workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulFinalizeRoutingWeightNzV2GetWorkspaceSize(
    const aclTensor* x1, aclTensor* x2, const aclTensor* scaleOptional,
    const aclTensor* biasOptional, const aclTensor* offsetOptional,
    const aclTensor* antiquantScaleOptional, const aclTensor* antiquantOffsetOptional,
    const aclTensor* pertokenScaleOptional, const aclTensor* groupListOptional,
    const aclTensor* sharedInputOptional, const aclTensor* logitOptional,
    const aclTensor* rowIndexOptional, int64_t dtype, float sharedInputWeight,
    int64_t sharedInputOffset, bool transposeX, bool transposeW, int64_t groupListType,
    const aclIntArray* /*tuningConfigOptional*/, aclTensor* out, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return Prepare("aclnnGroupedMatmulFinalizeRoutingWeightNzV2",
                 {x1,
                  x2,
                  scaleOptional,
                  biasOptional,
                  offsetOptional,
                  antiquantScaleOptional,
                  antiquantOffsetOptional,
                  pertokenScaleOptional,
                  groupListOptional,
                  sharedInputOptional,
                  logitOptional,
                  rowIndexOptional,
                  dtype,
                  sharedInputWeight,
                  sharedInputOffset,
                  transposeX,
                  transposeW,
                  groupListType,
                  out,
                  false},
                 workspaceSize, executor);
}

OPST_CANN_LAUNCH(aclnnGroupedMatmulFinalizeRouting)
OPST_CANN_LAUNCH(aclnnGroupedMatmulFinalizeRoutingV2)
OPST_CANN_LAUNCH(aclnnGroupedMatmulFinalizeRoutingV3)
OPST_CANN_LAUNCH(aclnnGroupedMatmulFinalizeRoutingWeightNz)
OPST_CANN_LAUNCH(aclnnGroupedMatmulFinalizeRoutingWeightNzV2)
