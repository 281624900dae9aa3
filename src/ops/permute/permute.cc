// Copies token rows into expert order. There is one implementation: it moves memory, nothing else.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/permute.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/thread_pool.h"
#include "ops/routing/check_plan.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "permute";
constexpr int64_t kRowsPerTask = 64;

}  // namespace

void Permute(const Context& context, ConstTensorView x, const RoutingPlan& plan, TensorView out) {
  OPST_CHECK_ARG(x.rank() == 2 && x.dim(0) == plan.num_tokens && IsModelFloat(x.dtype()), kOp,
                 "input must be [T,H] f32, bf16 or f16 of the plan's tokens", x.ToString(), " for ",
                 plan.num_tokens, " tokens");
  OPST_CHECK_ARG(out.shape() == (Shape{plan.num_rows(), x.dim(1)}) && out.dtype() == x.dtype(), kOp,
                 "output must be [R,H] of the input's dtype", out.ToString(), " for ",
                 plan.num_rows(), " rows of ", x.ToString());
  OPST_CHECK_ARG(x.dim(1) > 0, kOp, "input dim 1 (H) must be positive", x.ToString());
  OPST_CHECK_ARG(!out.Overlaps(x), kOp, "output must not overlap the input", out.ToString());
  CheckPlan(kOp, plan);
  const size_t row_bytes = static_cast<size_t>(x.dim(1)) * ByteSize(x.dtype());
  const int64_t num_tasks = (plan.num_rows() + kRowsPerTask - 1) / kRowsPerTask;
  context.pool().ParallelFor(static_cast<size_t>(num_tasks), [&](size_t task, int) {
    const int64_t begin = static_cast<int64_t>(task) * kRowsPerTask;
    const int64_t end = std::min(begin + kRowsPerTask, plan.num_rows());
    for (int64_t row = begin; row < end; ++row) {
      const int32_t slot = plan.row_to_slot[static_cast<size_t>(row)];
      if (slot < 0) {
        std::memset(out.mutable_row(row), 0, row_bytes);
      } else {
        std::memcpy(out.mutable_row(row), x.row(slot / plan.top_k), row_bytes);
      }
    }
  });
}

}  // namespace opst
