// CANN's grouped_matmul_add: the gradients of weights, added to what is there.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "aclnnop/aclnn_grouped_matmul_add.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/gmm/group_list.h"
#include "opst/ops/grouped_matmul.h"

namespace opst::cann {
namespace {

constexpr std::array kHalves = {ACL_FLOAT16, ACL_BF16};

void AddProducts(const Run& run, Index x, Index weight, Index list, Index out) {
  const int64_t inner = run[x].dim(0), rows = run[x].dim(1), columns = run[weight].dim(1);
  const int64_t count = run[list].dim(0);
  const auto groups = ReadGroups(run, run.Ints(list), GroupListType::kRunningSums, inner, count);
  std::vector<int64_t> offsets = {0};
  for (const RowGroup& group : groups) offsets.push_back(group.end);
  const int64_t used = offsets.back();
  if (count * rows * columns == 0) return;
  const auto part = [&](Index index, int64_t width) {
    return ConstTensorView(run.data(index), run.In(index, inner, width).dtype(),
                           Shape{used, width});
  };
  GroupedMatmulWeightGradient(run.context(), part(weight, columns), part(x, rows), offsets,
                              OutputMode::kAdd,
                              TensorView(run.Span<float>(out).data(), Shape{count, rows, columns}));
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnGroupedMatmulAddGetWorkspaceSize(const aclTensor* x, const aclTensor* weight,
                                                  const aclTensor* groupList, aclTensor* yRef,
                                                  bool transposeX, bool transposeWeight,
                                                  int64_t groupType, uint64_t* workspaceSize,
                                                  aclOpExecutor** executor) {
  return PrepareCall("aclnnGroupedMatmulAdd", workspaceSize, executor, [&](Call& call) -> Body {
    const Index left = call.Input("x", x, kHalves);
    const Index right = call.Input("weight", weight, kHalves);
    const Index list = call.Input("groupList", groupList, kI64);
    const Index out = call.Output("yRef", yRef, kF32);
    call.CheckOperands();
    call.SameDType(right, left);
    call.RankIs(left, 2);
    call.RankIs(right, 2);
    call.RankIs(list, 1);
    call.Shape(transposeX && !transposeWeight && groupType == 2,
               "transposeX must be true, transposeWeight false and groupType 2", groupType);
    call.Shape(call[left].dim(0) == call[right].dim(0), "x and weight must have the same K",
               call[left].Describe(), " and ", call[right].Describe());
    call.CountIs(out, call[list].dim(0) * call[left].dim(1) * call[right].dim(1));
    return [=](Run& run) { AddProducts(run, left, right, list, out); };
  });
}

OPST_CANN_LAUNCH(aclnnGroupedMatmulAdd)
