// Two operators about layout that programs call around grouped products: permuted axes, and weights
// in the machine's own layout, which here is the plain one.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "aclnnop/aclnn_permute.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "cann/src/descriptors/descriptors.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"

namespace opst::cann {
namespace {

constexpr std::array kAnything = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8,  ACL_INT32,
                                  ACL_INT64, ACL_UINT8,   ACL_BOOL, ACL_INT16, ACL_DOUBLE};
constexpr std::array kWeights = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_INT32, ACL_INT4};

aclnnStatus WeightBytes(const char* name, const aclIntArray* shape, aclDataType dtype,
                        uint64_t* bytes) {
  return Guard(ACLNN_ERR_PARAM_INVALID, [&] {
    Call call(name);
    call.RequirePointer("tensorShape", shape);
    call.RequirePointer("weightTensorSize", bytes);
    uint64_t count = 1;
    for (const int64_t dim : call.IntArray("tensorShape", shape)) {
      call.Param(dim >= 0 && dim < (int64_t{1} << 31), "dims must be 0 to 2^31", dim);
      count *= static_cast<uint64_t>(dim);
    }
    call.Param(aclDataTypeSize(dtype) > 0, "elements must be whole bytes", DataTypeName(dtype));
    *bytes = count * aclDataTypeSize(dtype);
  });
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnPermuteGetWorkspaceSize(const aclTensor* self, const aclIntArray* dims,
                                         aclTensor* out, uint64_t* workspaceSize,
                                         aclOpExecutor** executor) {
  return PrepareCall("aclnnPermute", workspaceSize, executor, [&](Call& call) -> Body {
    const Index from = call.Input("self", self, kAnything);
    const Index to = call.Output("out", out, kAnything);
    call.RequirePointer("dims", dims);
    const std::vector<int64_t> order = call.IntArray("dims", dims);
    call.CheckOperands();
    call.SameDType(to, from);
    Operand view = call[from];
    std::vector<bool> is_used(view.rank(), false);
    call.Param(order.size() == view.rank(), "dims must name every axis", order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      const auto rank = static_cast<int64_t>(view.rank());
      const int64_t axis = order[i] < 0 ? order[i] + rank : order[i];
      call.Param(axis >= 0 && axis < rank && !is_used[static_cast<size_t>(axis)],
                 "dims must name every axis once", order[i]);
      is_used[static_cast<size_t>(axis)] = true;
      view.dims[i] = call[from].dims[static_cast<size_t>(axis)];
      view.strides[i] = call[from].strides[static_cast<size_t>(axis)];
    }
    call.Param(call[to].dims == view.dims, "out must have the permuted dims", call[to].Describe());
    return [=](Run& run) {
      Operand permuted = view;
      permuted.data = run[from].data;
      if (permuted.num_elements() > 0) CopyToContiguous(permuted, run.data(to));
    };
  });
}

aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray* tensorShape,
                                           uint64_t* weightTensorSize) {
  return WeightBytes("aclnnCalculateMatmulWeightSize", tensorShape, ACL_FLOAT16, weightTensorSize);
}

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape, aclDataType dataType,
                                             uint64_t* weightTensorSize) {
  return WeightBytes("aclnnCalculateMatmulWeightSizeV2", tensorShape, dataType, weightTensorSize);
}

aclnnStatus aclnnTransMatmulWeightGetWorkspaceSize(aclTensor* mmWeightRef, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return PrepareCall("aclnnTransMatmulWeight", workspaceSize, executor, [&](Call& call) -> Body {
    call.Output("mmWeightRef", mmWeightRef, kWeights);
    call.CheckOperands();
    return [](Run&) {};
  });
}

OPST_CANN_LAUNCH(aclnnPermute)
OPST_CANN_LAUNCH(aclnnTransMatmulWeight)
