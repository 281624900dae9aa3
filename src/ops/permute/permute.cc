// Copies token rows into expert order, and sums their gradients back. There is one implementation:
// it moves memory.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/permute.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "ops/permute/row_blocks.h"
#include "ops/routing/check_plan.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "permute";

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
  ForRowBlocks(context, plan.num_rows(), kCopiedRowsPerTask, [&](int64_t begin, int64_t end) {
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

void PermuteBackward(const Context& context, ConstTensorView d_out, const RoutingPlan& plan,
                     TensorView d_x) {
  constexpr std::string_view kBackward = "permute_backward";
  OPST_CHECK_ARG(
      d_out.rank() == 2 && d_out.dim(0) == plan.num_rows() && IsModelFloat(d_out.dtype()),
      kBackward, "d_out must be [R,H] f32, bf16 or f16 of the plan's rows", d_out.ToString(),
      " for ", plan.num_rows(), " rows");
  OPST_CHECK_ARG(d_out.dim(1) > 0, kBackward, "d_out dim 1 (H) must be positive", d_out.ToString());
  OPST_CHECK_ARG(d_x.shape() == (Shape{plan.num_tokens, d_out.dim(1)}) && IsModelFloat(d_x.dtype()),
                 kBackward, "d_x must be [T,H] f32, bf16 or f16", d_x.ToString(), " for ",
                 plan.num_tokens, " tokens of ", d_out.ToString());
  OPST_CHECK_ARG(!d_x.Overlaps(d_out), kBackward, "d_x must not overlap d_out", d_x.ToString());
  CheckPlan(kBackward, plan);
  const auto width = static_cast<size_t>(d_out.dim(1));
  ForRowBlocks(context, plan.num_tokens, kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> sum(width);
    std::vector<float> row(width);
    for (int64_t token = begin; token < end; ++token) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int64_t j = 0; j < plan.top_k; ++j) {
        const int32_t source = plan.slot_to_row[static_cast<size_t>(token * plan.top_k + j)];
        if (source < 0) continue;
        ConvertToFloat(d_out.dtype(), d_out.row(source), width, row.data());
        AddTo(row.data(), width, sum.data());
      }
      ConvertFromFloat(sum.data(), width, d_x.dtype(), d_x.mutable_row(token));
    }
  });
}

}  // namespace opst
