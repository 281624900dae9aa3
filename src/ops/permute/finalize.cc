// Weighted sum of expert outputs per token, one writer per token.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "ops/permute/row_blocks.h"
#include "ops/routing/check_plan.h"
#include "opst/ops/permute.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "finalize_routing";

// (expert, slot) of a token's rows in the order of their summation.
using Choices = std::vector<std::pair<int32_t, size_t>>;

void CollectChoices(const RoutingPlan& plan, int64_t token, SummationOrder order,
                    Choices& choices) {
  choices.clear();
  for (int64_t j = 0; j < plan.top_k; ++j) {
    const auto slot = static_cast<size_t>(token * plan.top_k + j);
    if (plan.slot_to_row[slot] >= 0) choices.emplace_back(plan.expert_ids[slot], slot);
  }
  if (order == SummationOrder::kByExpert) std::sort(choices.begin(), choices.end());
}

void CheckResidual(ConstTensorView residual, TensorView out) {
  if (residual.rank() == 0) return;
  OPST_CHECK_ARG(residual.shape() == out.shape() && IsModelFloat(residual.dtype()), kOp,
                 "residuals must be [T,H] f32, bf16 or f16, or absent", residual.ToString());
  const bool is_in_place = residual.data() == out.data() && residual.dtype() == out.dtype() &&
                           residual.row_stride() == out.row_stride();
  OPST_CHECK_ARG(is_in_place || !out.Overlaps(residual), kOp,
                 "output must not overlap a residual unless it is the same memory", out.ToString());
}

void CheckArguments(ConstTensorView expert_out, const RoutingPlan& plan,
                    const FinalizeOptions& options, TensorView out) {
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
  OPST_CHECK_ARG(!out.Overlaps(expert_out), kOp, "output must not overlap expert_out",
                 out.ToString());
  CheckResidual(options.residual, out);
  CheckResidual(options.second_residual, out);
  OPST_CHECK_ARG(options.second_residual.rank() == 0 || options.residual.rank() == 2, kOp,
                 "a second residual needs a first one", options.second_residual.ToString());
  const ConstTensorView& bias = options.expert_bias;
  OPST_CHECK_ARG(bias.rank() == 0 || (bias.shape() == Shape{plan.num_experts, out.dim(1)} &&
                                      IsModelFloat(bias.dtype()) && !out.Overlaps(bias)),
                 kOp, "expert_bias must be [E,H] f32, bf16 or f16 apart from the output, or absent",
                 bias.ToString());
  CheckPlan(kOp, plan);
}

// Sums the tokens of one task; holds the row buffers.
class TokenSum {
 public:
  TokenSum(ConstTensorView expert_out, const RoutingPlan& plan, const FinalizeOptions& options,
           TensorView out)
      : expert_out_(expert_out),
        plan_(plan),
        options_(options),
        out_(out),
        sum_(static_cast<size_t>(out.dim(1))),
        row_(sum_.size()),
        bias_(sum_.size()) {}

  void Run(int64_t token) {
    std::fill(sum_.begin(), sum_.end(), 0.0f);
    for (const ConstTensorView& residual : {options_.residual, options_.second_residual}) {
      if (residual.rank() == 0) continue;
      ConvertToFloat(residual.dtype(), residual.row(token), row_.size(), row_.data());
      AddTo(row_.data(), row_.size(), sum_.data());
    }
    CollectChoices(plan_, token, options_.order, choices_);
    for (const auto& [expert, slot] : choices_) AddRow(expert, slot);
    ConvertFromFloat(sum_.data(), sum_.size(), out_.dtype(), out_.mutable_row(token));
  }

 private:
  void AddRow(int32_t expert, size_t slot) {
    ConvertToFloat(expert_out_.dtype(), expert_out_.row(plan_.slot_to_row[slot]), row_.size(),
                   row_.data());
    if (options_.expert_bias.rank() > 0) {
      ConvertToFloat(options_.expert_bias.dtype(), options_.expert_bias.row(expert), bias_.size(),
                     bias_.data());
      AddTo(bias_.data(), bias_.size(), row_.data());
    }
    ScaledAccumulate(plan_.expert_weights[slot], row_.data(), row_.size(), sum_.data());
  }

  const ConstTensorView expert_out_;
  const RoutingPlan& plan_;
  const FinalizeOptions& options_;
  const TensorView out_;
  std::vector<float> sum_;
  std::vector<float> row_;
  std::vector<float> bias_;
  Choices choices_;
};

}  // namespace

void FinalizeRouting(const Context& context, ConstTensorView expert_out, const RoutingPlan& plan,
                     const FinalizeOptions& options, TensorView out) {
  CheckArguments(expert_out, plan, options, out);
  ForRowBlocks(context, plan.num_tokens, kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    TokenSum sum(expert_out, plan, options, out);
    for (int64_t token = begin; token < end; ++token) sum.Run(token);
  });
}

}  // namespace opst
