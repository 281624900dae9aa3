// CANN's grouped_matmul_swiglu_quant: int8 product, gate times up, and int8 again with a scale a
// row.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "aclnnop/aclnn_grouped_matmul_swiglu_quant.h"
#include "aclnnop/aclnn_grouped_matmul_swiglu_quant_weight_nz.h"
#include "cann/src/execution/call.h"
#include "cann/src/gmm/group_list.h"
#include "cann/src/gmm/matrix_product.h"
#include "cann/src/gmm/weight_matrix.h"
#include "cann/src/moe/quantize.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

constexpr int64_t kMaxColumns = 10240;
constexpr int64_t kMaxInner = 65536;

struct Operands {
  Index x, weight, weight_scale, x_scale, list, out, out_scale;
};

void RunGroup(const Run& run, const Operands& operands, const WeightShape& shape,
              const RowGroup& group, const std::vector<float>& weight_scales) {
  const std::vector<int8_t> weight = ReadIntWeight(run, operands.weight, shape, group.weight);
  const auto x_scale = run.Span<const float>(operands.x_scale);
  const float* const scale = weight_scales.data() + group.weight * shape.columns;
  const auto out_scale = run.Span<float>(operands.out_scale);
  const auto half = static_cast<size_t>(shape.columns / 2);
  MultiplyInts(run.context(), run.Span<const int8_t>(operands.x).data() + group.begin * shape.inner,
               weight.data(), group.size(), shape.inner, shape.columns,
               [&](int64_t row, std::span<const int32_t> sums) {
                 const auto at = static_cast<size_t>(group.begin + row);
                 const auto scaled = [&](size_t column) {
                   return static_cast<float>(sums[column]) * x_scale[at] * scale[column];
                 };
                 std::vector<float> values(half);  // the first half is the gate
                 for (size_t n = 0; n < half; ++n) values[n] = scaled(n);
                 ElementActivation(Activation::kSilu, values.data(), half);
                 for (size_t n = 0; n < half; ++n) values[n] *= scaled(n + half);
                 out_scale[at] =
                     QuantizeProduct(values, run.Span<int8_t>(operands.out).data() + at * half);
               });
}

aclnnStatus Prepare(const char* name, const aclTensor* x, const aclTensor* weight,
                    const aclTensor* offset, const aclTensor* weight_scale,
                    const aclTensor* x_scale, const aclTensor* list, const aclTensor* out,
                    const aclTensor* out_scale, const aclTensor* out_offset,
                    uint64_t* workspace_size, aclOpExecutor** executor) {
  return PrepareCall(name, workspace_size, executor, [&](Call& call) -> Body {
    Operands operands{};
    operands.x = call.Input("x", x, kI8);
    operands.weight = call.Input("weight", weight, kI8);
    operands.weight_scale = call.Input("weightScale", weight_scale, kFloats);
    operands.x_scale = call.Input("xScale", x_scale, kF32);
    operands.list = call.Input("groupList", list, kI64);
    operands.out = call.Output("output", out, kI8);
    operands.out_scale = call.Output("outputScale", out_scale, kF32);
    call.CheckOperands();
    call.Param(offset == nullptr && out_offset == nullptr, "offset and outputOffset must be null",
               "a tensor");
    const WeightShape shape = ShapeOfWeight(call[operands.weight]);
    call.Param(
        call[operands.x].rank() == 2 && shape.inner == call[operands.x].dim(1) && shape.inner > 0,
        "x must be [M,K] and weight [E,K,N], plain or fractal", call[operands.x].Describe(),
        " and ", call[operands.weight].Describe());
    call.Param(shape.columns % 2 == 0 && shape.columns <= kMaxColumns && shape.inner < kMaxInner,
               "N must be even and at most 10240, K below 65536", call[operands.weight].Describe());
    const int64_t rows = call[operands.x].dim(0);
    const auto is = [&](Index index, const std::vector<int64_t>& dims) {
      call.Param(call[index].dims == dims, Concat(call[index].name, " must fit x and weight"),
                 call[index].Describe());
    };
    is(operands.weight_scale, {shape.experts, shape.columns});
    is(operands.x_scale, {rows});
    is(operands.out, {rows, shape.columns / 2});
    is(operands.out_scale, {rows});
    call.Param(call[operands.list].rank() == 1 && call[operands.list].dim(0) <= shape.experts,
               "groupList must have at most one entry an expert", call[operands.list].Describe());
    return [=](Run& run) {
      const std::vector<float> scales = run.Floats(operands.weight_scale);
      for (const RowGroup& group : ReadGroups(run, run.Ints(operands.list),
                                              GroupListType::kRunningSums, rows, shape.experts)) {
        if (group.size() > 0) RunGroup(run, operands, shape, group, scales);
      }
    };
  });
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnGroupedMatmulSwigluQuantGetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight, const aclTensor* /*biasOptional*/,
    const aclTensor* offsetOptional, const aclTensor* weightScale, const aclTensor* xScale,
    const aclTensor* groupList, aclTensor* output, aclTensor* outputScale,
    aclTensor* outputOffsetOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare("aclnnGroupedMatmulSwigluQuant", x, weight, offsetOptional, weightScale, xScale,
                 groupList, output, outputScale, outputOffsetOptional, workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulSwigluQuantWeightNZGetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight, const aclTensor* /*biasOptional*/,
    const aclTensor* offsetOptional, const aclTensor* weightScale, const aclTensor* xScale,
    const aclTensor* groupList, aclTensor* output, aclTensor* outputScale,
    aclTensor* outputOffsetOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return Prepare("aclnnGroupedMatmulSwigluQuantWeightNZ", x, weight, offsetOptional, weightScale,
                 xScale, groupList, output, outputScale, outputOffsetOptional, workspaceSize,
                 executor);
}

OPST_CANN_LAUNCH(aclnnGroupedMatmulSwigluQuant)
OPST_CANN_LAUNCH(aclnnGroupedMatmulSwigluQuantWeightNZ)
