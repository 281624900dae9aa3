// CANN's grouped_matmul_swiglu_quant: int8 by int8 or int4 product, gate times up, and int8 again
// with a scale a row.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "aclnnop/aclnn_grouped_matmul_swiglu_quant.h"
#include "aclnnop/aclnn_grouped_matmul_swiglu_quant_weight_nz.h"
#include "cann/src/descriptors/descriptors.h"
#include "cann/src/execution/call.h"
#include "cann/src/gmm/group_list.h"
#include "cann/src/gmm/int4_product.h"
#include "cann/src/gmm/matrix_product.h"
#include "cann/src/gmm/weight_matrix.h"
#include "cann/src/moe/quantize.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

constexpr int64_t kMaxColumns = 10240;
constexpr int64_t kMaxInner = 65536;
constexpr int64_t kMaxInt4Inner = 20000;
constexpr std::array kWeights = {ACL_INT8, ACL_INT4, ACL_INT32};
constexpr std::array kScales = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT64, ACL_UINT64};

struct Arguments {
  const aclTensor *x, *weight, *bias, *offset, *weight_scale, *x_scale, *list;
  const aclTensor *out, *out_scale, *out_offset;
};

struct Operands {
  Index x, weight, bias, weight_scale, x_scale, list, out, out_scale;
  WeightShape shape;
  bool is_int4 = false;
  int64_t parts = 1;  // groups of rows with a scale each
};

// Gate times up, and int8 again. `scaled` [N], the first half is the gate.
void FinishRow(const Run& run, const Operands& operands, int64_t row,
               std::span<const float> scaled) {
  const size_t half = scaled.size() / 2, at = static_cast<size_t>(row);
  std::vector<float> values(scaled.begin(), scaled.begin() + static_cast<std::ptrdiff_t>(half));
  ElementActivation(Activation::kSilu, values.data(), half);
  for (size_t n = 0; n < half; ++n) values[n] *= scaled[n + half];
  run.Span<float>(operands.out_scale)[at] =
      QuantizeProduct(values, run.Span<int8_t>(operands.out).data() + at * half);
}

void RunGroup(const Run& run, const Operands& operands, const RowGroup& group,
              const std::vector<float>& weight_scales) {
  const WeightShape& shape = operands.shape;
  const std::vector<int8_t> weight = ReadIntWeight(run, operands.weight, shape, group.weight);
  const std::vector<float> x_scale = run.Floats(operands.x_scale);
  const int8_t* const x = run.Span<const int8_t>(operands.x).data() + group.begin * shape.inner;
  const IntProduct product{group.size(), shape.inner, shape.columns, operands.parts};
  const auto part = [&](const std::vector<float>& all) {
    const int64_t size = static_cast<int64_t>(all.size()) / shape.experts;
    const auto first = all.begin() + group.weight * size;
    return std::vector<float>(first, first + size);
  };
  const std::vector<float> scale = part(weight_scales);
  std::vector<float> bias;
  if (operands.is_int4) bias = part(run.Floats(operands.bias));
  const auto token = [&](int64_t row) { return x_scale[static_cast<size_t>(group.begin + row)]; };
  if (operands.is_int4) {
    return MultiplyInt4(run.context(), x, weight.data(), product, {scale, bias, {}},
                        [&](int64_t row, std::span<const float> values) {
                          std::vector<float> scaled(values.begin(), values.end());
                          for (float& value : scaled) value *= token(row);
                          FinishRow(run, operands, group.begin + row, scaled);
                        });
  }
  MultiplyInts(run.context(), x, weight.data(), product,
               [&](int64_t row, std::span<const int32_t> sums) {
                 std::vector<float> scaled(sums.size());
                 for (size_t n = 0; n < sums.size(); ++n) {
                   scaled[n] = static_cast<float>(sums[n]) * token(row) * scale[n];
                 }
                 FinishRow(run, operands, group.begin + row, scaled);
               });
}

void CheckShapes(const Call& call, Operands& operands) {
  const WeightShape& shape = operands.shape = ShapeOfWeight(call[operands.weight]);
  const Operand& x = call[operands.x];
  const Operand& weight = call[operands.weight];
  const Operand& scale = call[operands.weight_scale];
  call.Param(x.rank() == 2 && shape.inner == x.dim(1) && shape.inner > 0 && shape.experts > 0,
             "x must be [M,K] and weight [E,K,N], plain or fractal", x.Describe(), " and ",
             weight.Describe());
  call.Param(shape.columns % 2 == 0 && shape.columns <= kMaxColumns &&
                 shape.inner < (operands.is_int4 ? kMaxInt4Inner : kMaxInner),
             "N must be even and at most 10240, K below 65536, or 20000 with int4",
             weight.Describe());
  const auto is = [&](Index index, const std::vector<int64_t>& dims) {
    call.Param(call[index].dims == dims, Concat(call[index].name, " must fit x and weight"),
               call[index].Describe());
  };
  if (operands.is_int4 && scale.rank() == 3) {
    operands.parts = scale.dim(1);
    call.Param(operands.parts > 0 && shape.inner % operands.parts == 0,
               "the groups of weightScale must divide K", scale.Describe());
    is(operands.weight_scale, {shape.experts, operands.parts, shape.columns});
  } else {
    is(operands.weight_scale, {shape.experts, shape.columns});
  }
  if (operands.is_int4) is(operands.bias, {shape.experts, shape.columns});
  is(operands.x_scale, {x.dim(0)});
  is(operands.out, {x.dim(0), shape.columns / 2});
  is(operands.out_scale, {x.dim(0)});
  call.Param(call[operands.list].rank() == 1 && call[operands.list].dim(0) <= shape.experts,
             "groupList must have at most one entry an expert", call[operands.list].Describe());
}

aclnnStatus Prepare(const char* name, const Arguments& arguments, uint64_t* workspace_size,
                    aclOpExecutor** executor) {
  return PrepareCall(name, workspace_size, executor, [&](Call& call) -> Body {
    Operands operands{};
    operands.x = call.Input("x", arguments.x, kI8);
    operands.weight = call.Input("weight", arguments.weight, kWeights);
    operands.weight_scale = call.Input("weightScale", arguments.weight_scale, kScales);
    operands.x_scale = call.Input("xScale", arguments.x_scale, kFloats);
    operands.list = call.Input("groupList", arguments.list, kI64);
    operands.out = call.Output("output", arguments.out, kI8);
    operands.out_scale = call.Output("outputScale", arguments.out_scale, kF32);
    const auto weight = LiveTensor(arguments.weight);
    operands.is_int4 = weight != nullptr && IsInt4(weight->dtype);
    operands.bias = kAbsent;
    if (operands.is_int4) operands.bias = call.Input("bias", arguments.bias, kF32);
    call.CheckOperands();
    call.Param(IsScaleBits(call[operands.weight_scale].dtype) == operands.is_int4,
               "weightScale must be 64 bits for int4 weights, else floats",
               call[operands.weight_scale].Describe());
    call.Param(arguments.offset == nullptr && arguments.out_offset == nullptr,
               "offset and outputOffset must be null", "a tensor");
    CheckShapes(call, operands);
    return [=](Run& run) {
      const std::vector<float> scales = ReadScales(run, operands.weight_scale);
      for (const RowGroup& group :
           ReadGroups(run, run.Ints(operands.list), GroupListType::kRunningSums,
                      run[operands.x].dim(0), operands.shape.experts)) {
        if (group.size() > 0) RunGroup(run, operands, group, scales);
      }
    };
  });
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnGroupedMatmulSwigluQuantGetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight, const aclTensor* biasOptional,
    const aclTensor* offsetOptional, const aclTensor* weightScale, const aclTensor* xScale,
    const aclTensor* groupList, aclTensor* output, aclTensor* outputScale,
    aclTensor* outputOffsetOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare("aclnnGroupedMatmulSwigluQuant",
                 {x, weight, biasOptional, offsetOptional, weightScale, xScale, groupList, output,
                  outputScale, outputOffsetOptional},
                 workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulSwigluQuantWeightNZGetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight, const aclTensor* biasOptional,
    const aclTensor* offsetOptional, const aclTensor* weightScale, const aclTensor* xScale,
    const aclTensor* groupList, aclTensor* output, aclTensor* outputScale,
    aclTensor* outputOffsetOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare("aclnnGroupedMatmulSwigluQuantWeightNZ",
                 {x, weight, biasOptional, offsetOptional, weightScale, xScale, groupList, output,
                  outputScale, outputOffsetOptional},
                 workspaceSize, executor);
}

OPST_CANN_LAUNCH(aclnnGroupedMatmulSwigluQuant)
OPST_CANN_LAUNCH(aclnnGroupedMatmulSwigluQuantWeightNZ)
