// Weighted sum of expert outputs per token, one writer per token.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "kernels/rows.h"
#include "ops/routing/check_plan.h"
#include "opst/ops/permute.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "finalize_routing";
constexpr int64_t kTokensPerTask = 16;

// (expert, slot) of a token's rows, ascending in expert id.
using Choices = std::vector<std::pair<int32_t, size_t>>;

void CollectChoices(const RoutingPlan& plan, int64_t token, Choices& choices) {
  choices.clear();
  for (int64_t j = 0; j < plan.top_k; ++j) {
    const auto slot = static_cast<size_t>(token * plan.top_k + j);
    if (plan.slot_to_row[slot] >= 0) choices.emplace_back(plan.expert_ids[slot], slot);
  }
  std::sort(choices.begin(), choices.end());
}

void CheckArguments(ConstTensorView expert_out, const RoutingPlan& plan, ConstTensorView residual,
                    TensorView out) {
  OPST_CHECK_ARG(expert_out.rank() == 2 && expert_out.dim(0) == plan.num_rows() &&
                     IsModelFloat(expert_out.dtype()),
                 kOp, "expert_out must be [R,H] f32, bf16 or f16 of the plan's rows",
                 expert_out.ToString(), " for ", plan.num_rows(), " rows");
  OPST_CHECK_ARG(expert_out.dim(1) > 0, kOp, "expert_out dim 1 (H) must be positive",
                 expert_out.ToString());
  OPST_CHECK_ARG(
      out.shape() == (Shape{plan.num_tokens, expert_out.dim(1)}) && IsModelFloat(out.dtype()), kOp,
      "output must be [T,H] f32, bf16 or f16", out.ToString(), " for ", plan.num_tokens,
      " tokens of ", expert_out.ToString());
  OPST_CHECK_ARG(
      residual.rank() == 0 || (residual.shape() == out.shape() && IsModelFloat(residual.dtype())),
      kOp, "residual must be [T,H] f32, bf16 or f16, or absent", residual.ToString());
  const bool is_in_place = residual.data() == out.data() && residual.dtype() == out.dtype() &&
                           residual.row_stride() == out.row_stride();
  OPST_CHECK_ARG(
      !out.Overlaps(expert_out) && (residual.rank() == 0 || is_in_place || !out.Overlaps(residual)),
      kOp, "output must not overlap expert_out, nor the residual unless it is the same memory",
      out.ToString());
  CheckPlan(kOp, plan);
}

}  // namespace

void FinalizeRouting(const Context& context, ConstTensorView expert_out, const RoutingPlan& plan,
                     ConstTensorView residual, TensorView out) {
  CheckArguments(expert_out, plan, residual, out);
  const auto width = static_cast<size_t>(expert_out.dim(1));
  const int64_t num_tasks = (plan.num_tokens + kTokensPerTask - 1) / kTokensPerTask;
  context.pool().ParallelFor(static_cast<size_t>(num_tasks), [&](size_t task, int) {
    std::vector<float> sum(width);
    std::vector<float> row(width);
    Choices choices;
    const int64_t begin = static_cast<int64_t>(task) * kTokensPerTask;
    const int64_t end = std::min(begin + kTokensPerTask, plan.num_tokens);
    for (int64_t token = begin; token < end; ++token) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      if (residual.rank() == 2) {
        ConvertToFloat(residual.dtype(), residual.row(token), width, sum.data());
      }
      CollectChoices(plan, token, choices);
      for (const auto& [expert, slot] : choices) {
        ConvertToFloat(expert_out.dtype(), expert_out.row(plan.slot_to_row[slot]), width,
                       row.data());
        ScaledAccumulate(plan.expert_weights[slot], row.data(), width, sum.data());
      }
      ConvertFromFloat(sum.data(), width, out.dtype(), out.mutable_row(token));
    }
  });
}

}  // namespace opst
