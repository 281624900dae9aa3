// The gradients of finalize: to the experts' rows, the mixing weights and the experts' biases.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "ops/permute/row_blocks.h"
#include "ops/routing/check_plan.h"
#include "opst/ops/permute.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "finalize_routing_backward";

// Everything the three gradients read.
struct Request {
  ConstTensorView d_out;       // [T,H]
  ConstTensorView expert_out;  // [R,H] or empty
  const RoutingPlan& plan;
  ConstTensorView expert_bias;  // [E,H] or empty

  int64_t token(int32_t slot) const { return slot / plan.top_k; }
  size_t width() const { return static_cast<size_t>(d_out.dim(1)); }
};

void CheckInputs(const Request& request, bool needs_expert_out) {
  const ConstTensorView& d_out = request.d_out;
  const RoutingPlan& plan = request.plan;
  OPST_CHECK_ARG(d_out.rank() == 2 && d_out.dim(0) == plan.num_tokens && d_out.dim(1) > 0 &&
                     IsModelFloat(d_out.dtype()),
                 kOp, "d_out must be [T,H] f32, bf16 or f16 of the plan's tokens, H > 0",
                 d_out.ToString(), " for ", plan.num_tokens, " tokens");
  const ConstTensorView& rows = request.expert_out;
  const bool is_absent = rows.rank() == 0 && !needs_expert_out;
  OPST_CHECK_ARG(is_absent || (rows.shape() == Shape{plan.num_rows(), d_out.dim(1)} &&
                               IsModelFloat(rows.dtype())),
                 kOp, "expert_out must be [R,H] f32, bf16 or f16, or absent without d_weights",
                 rows.ToString(), " for ", plan.num_rows(), " rows");
  const ConstTensorView& bias = request.expert_bias;
  OPST_CHECK_ARG(bias.rank() == 0 || (bias.shape() == Shape{plan.num_experts, d_out.dim(1)} &&
                                      IsModelFloat(bias.dtype())),
                 kOp, "expert_bias must be [E,H] f32, bf16 or f16, or absent", bias.ToString());
  CheckPlan(kOp, plan);
}

void CheckGradients(const Request& request, const FinalizeGradients& gradients) {
  const RoutingPlan& plan = request.plan;
  const int64_t hidden = request.d_out.dim(1);
  const TensorView& rows = gradients.d_expert_out;
  OPST_CHECK_ARG(rows.rank() == 0 ||
                     (rows.shape() == Shape{plan.num_rows(), hidden} && IsModelFloat(rows.dtype())),
                 kOp, "d_expert_out must be [R,H] f32, bf16 or f16, or absent", rows.ToString(),
                 " for ", plan.num_rows(), " rows");
  const TensorView& weights = gradients.d_weights;
  OPST_CHECK_ARG(weights.rank() == 0 || (weights.shape() == Shape{plan.num_tokens, plan.top_k} &&
                                         weights.dtype() == DType::kF32 && weights.is_contiguous()),
                 kOp, "d_weights must be contiguous [T,k] f32, or absent", weights.ToString());
  const TensorView& bias = gradients.d_expert_bias;
  OPST_CHECK_ARG(bias.rank() == 0 || (bias.shape() == Shape{plan.num_experts, hidden} &&
                                      bias.dtype() == DType::kF32),
                 kOp, "d_expert_bias must be [E,H] f32, or absent", bias.ToString());
  for (const TensorView& gradient : {rows, weights, bias}) {
    for (const ConstTensorView& input : {request.d_out, request.expert_out, request.expert_bias}) {
      OPST_CHECK_ARG(gradient.rank() == 0 || input.rank() == 0 || !gradient.Overlaps(input), kOp,
                     "gradients must not overlap the arguments", gradient.ToString());
    }
  }
}

void ComputeRows(const Context& context, const Request& request, TensorView d_rows) {
  const size_t width = request.width();
  const RoutingPlan& plan = request.plan;
  ForRowBlocks(context, plan.num_rows(), kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> gradient(width);
    std::vector<float> scaled(width);
    for (int64_t row = begin; row < end; ++row) {
      const int32_t slot = plan.row_to_slot[static_cast<size_t>(row)];
      std::fill(scaled.begin(), scaled.end(), 0.0f);
      if (slot >= 0) {
        ConvertToFloat(request.d_out.dtype(), request.d_out.row(request.token(slot)), width,
                       gradient.data());
        ScaledAccumulate(plan.expert_weights[static_cast<size_t>(slot)], gradient.data(), width,
                         scaled.data());
      }
      ConvertFromFloat(scaled.data(), width, d_rows.dtype(), d_rows.mutable_row(row));
    }
  });
}

void ComputeWeights(const Context& context, const Request& request, TensorView d_weights) {
  const size_t width = request.width();
  const RoutingPlan& plan = request.plan;
  ForRowBlocks(context, plan.num_tokens, kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> gradient(width);
    std::vector<float> row(width);
    std::vector<float> bias(width);
    for (int64_t slot = begin * plan.top_k; slot < end * plan.top_k; ++slot) {
      float& d_weight = d_weights.mutable_as<float>()[slot];
      const int32_t source = plan.slot_to_row[static_cast<size_t>(slot)];
      d_weight = 0;
      if (source < 0) continue;
      ConvertToFloat(request.d_out.dtype(), request.d_out.row(slot / plan.top_k), width,
                     gradient.data());
      ConvertToFloat(request.expert_out.dtype(), request.expert_out.row(source), width, row.data());
      if (request.expert_bias.rank() > 0) {
        const int32_t expert = plan.expert_ids[static_cast<size_t>(slot)];
        ConvertToFloat(request.expert_bias.dtype(), request.expert_bias.row(expert), width,
                       bias.data());
        AddTo(bias.data(), width, row.data());
      }
      d_weight = Dot(gradient.data(), row.data(), width);
    }
  });
}

void ComputeBias(const Context& context, const Request& request, TensorView d_bias) {
  const size_t width = request.width();
  const RoutingPlan& plan = request.plan;
  ForRowBlocks(context, plan.num_experts, 1, [&](int64_t expert, int64_t) {
    const auto sum = reinterpret_cast<float*>(d_bias.mutable_row(expert));
    std::fill_n(sum, width, 0.0f);
    std::vector<float> gradient(width);
    const auto first = static_cast<size_t>(plan.expert_offsets[static_cast<size_t>(expert)]);
    const auto count = static_cast<size_t>(plan.expert_counts[static_cast<size_t>(expert)]);
    for (size_t row = first; row < first + count; ++row) {
      const int32_t slot = plan.row_to_slot[row];
      ConvertToFloat(request.d_out.dtype(), request.d_out.row(request.token(slot)), width,
                     gradient.data());
      ScaledAccumulate(plan.expert_weights[static_cast<size_t>(slot)], gradient.data(), width, sum);
    }
  });
}

}  // namespace

void FinalizeRoutingBackward(const Context& context, ConstTensorView d_out,
                             ConstTensorView expert_out, const RoutingPlan& plan,
                             ConstTensorView expert_bias, const FinalizeGradients& gradients) {
  const Request request{d_out, expert_out, plan, expert_bias};
  CheckInputs(request, gradients.d_weights.rank() > 0);
  CheckGradients(request, gradients);
  if (gradients.d_expert_out.rank() > 0) ComputeRows(context, request, gradients.d_expert_out);
  if (gradients.d_weights.rank() > 0) ComputeWeights(context, request, gradients.d_weights);
  if (gradients.d_expert_bias.rank() > 0) ComputeBias(context, request, gradients.d_expert_bias);
}

}  // namespace opst
