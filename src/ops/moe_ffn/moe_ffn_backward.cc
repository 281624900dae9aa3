// Checks a backward call of the MoE layer and walks its experts and rows in parts that fit.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/moe_ffn_backward.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/config.h"
#include "kernels/isa.h"
#include "kernels/rows.h"
#include "ops/moe_ffn/backward_part.h"
#include "ops/permute/row_blocks.h"
#include "ops/routing/check_plan.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "moe_ffn_backward";

void CheckBias(ConstTensorView bias, const Shape& shape, std::string_view rule) {
  OPST_CHECK_ARG(bias.rank() == 0 ||
                     (bias.shape() == shape && bias.dtype() == DType::kF32 && bias.is_contiguous()),
                 kOp, rule, bias.ToString(), " for ", shape.ToString());
}

void CheckInputs(const MoeFfnBackwardRequest& request) {
  const ConstTensorView& x = request.x;
  const ConstTensorView& d_out = request.d_out;
  const ConstTensorView& gate_up = request.experts.gate_up;
  const ConstTensorView& down = request.experts.down;
  OPST_CHECK_ARG(x.rank() == 2 && x.dim(1) > 0 && IsModelFloat(x.dtype()), kOp,
                 "input must be [T,H] f32, bf16 or f16, H > 0", x.ToString());
  OPST_CHECK_ARG(d_out.shape() == x.shape() && IsModelFloat(d_out.dtype()), kOp,
                 "d_out must be [T,H] f32, bf16 or f16", d_out.ToString(), " for input ",
                 x.ToString());
  const auto is_weight = [](const ConstTensorView& weight) {
    return weight.rank() == 3 && IsModelFloat(weight.dtype()) && weight.is_contiguous();
  };
  OPST_CHECK_ARG(is_weight(gate_up) && is_weight(down) && gate_up.dtype() == down.dtype(), kOp,
                 "weights must be contiguous [E,2F,H] (no gate: [E,F,H]) and [E,H,F] of one model "
                 "float type",
                 gate_up.ToString(), " and ", down.ToString());
  const bool has_gate = request.has_gate();
  const Shape wanted{down.dim(0), (has_gate ? 2 : 1) * down.dim(2), x.dim(1)};
  OPST_CHECK_ARG(gate_up.shape() == wanted && down.dim(1) == x.dim(1) && down.dim(2) > 0, kOp,
                 "gate_up must be [E,2F,H] (no gate: [E,F,H]) and down [E,H,F] of the input's H",
                 "gate_up ", gate_up.ToString(), ", down ", down.ToString(), ", input ",
                 x.ToString());
  OPST_CHECK_ARG(has_gate || request.options.activation != Activation::kClampedSwiglu, kOp,
                 "clamped SwiGLU must have a gate", "gate_up ", gate_up.ToString());
  CheckBias(request.experts.gate_up_bias, {wanted[0], wanted[1]},
            "gate_up_bias must be contiguous [E,2F] (no gate: [E,F]) f32, or absent");
  CheckBias(request.experts.down_bias, {wanted[0], wanted[2]},
            "down_bias must be contiguous [E,H] f32, or absent");
  OPST_CHECK_ARG(request.plan.num_tokens == x.dim(0) && request.plan.num_experts == wanted[0], kOp,
                 "plan must be of the input's tokens (T) and the weights' experts (E)",
                 request.plan.num_tokens, " tokens and ", request.plan.num_experts,
                 " experts planned for input ", x.ToString(), ", gate_up ", gate_up.ToString());
  CheckPlan(kOp, request.plan);
  const ConstTensorView& saved = request.options.saved_gate_up;
  OPST_CHECK_ARG(saved.rank() == 0 || (saved.shape() == Shape{request.plan.num_rows(), wanted[1]} &&
                                       IsModelFloat(saved.dtype())),
                 kOp, "saved_gate_up must be [R,2F] (no gate: [R,F]) f32, bf16 or f16, or absent",
                 saved.ToString(), " for ", request.plan.num_rows(), " rows of ",
                 gate_up.ToString());
}

void CheckGradient(TensorView gradient, const Shape& shape, std::string_view rule) {
  OPST_CHECK_ARG(
      gradient.rank() == 0 || (gradient.shape() == shape && gradient.dtype() == DType::kF32 &&
                               gradient.is_contiguous()),
      kOp, rule, gradient.ToString(), " for ", shape.ToString());
}

void CheckGradients(const MoeFfnBackwardRequest& request) {
  const MoeFfnGradients& out = request.gradients;
  const ExpertTensors& experts = request.experts;
  const int64_t num_experts = experts.down.dim(0);
  OPST_CHECK_ARG(out.d_x.rank() == 0 ||
                     (out.d_x.shape() == request.x.shape() && IsModelFloat(out.d_x.dtype())),
                 kOp, "d_x must be [T,H] f32, bf16 or f16, or absent", out.d_x.ToString());
  CheckGradient(out.d_expert_weights, {request.plan.num_tokens, request.plan.top_k},
                "d_expert_weights must be contiguous [T,k] f32, or absent");
  CheckGradient(out.d_gate_up, experts.gate_up.shape(),
                "d_gate_up must be contiguous f32 of gate_up's shape, or absent");
  CheckGradient(out.d_down, experts.down.shape(),
                "d_down must be contiguous [E,H,F] f32, or absent");
  CheckGradient(out.d_gate_up_bias, {num_experts, experts.gate_up.dim(1)},
                "d_gate_up_bias must be contiguous [E,2F] (no gate: [E,F]) f32, or absent");
  CheckGradient(out.d_down_bias, {num_experts, experts.down.dim(1)},
                "d_down_bias must be contiguous [E,H] f32, or absent");
  const TensorView all[] = {out.d_x,    out.d_expert_weights, out.d_gate_up,
                            out.d_down, out.d_gate_up_bias,   out.d_down_bias};
  const ConstTensorView inputs[] = {request.x,
                                    request.d_out,
                                    experts.gate_up,
                                    experts.down,
                                    experts.gate_up_bias,
                                    experts.down_bias,
                                    request.options.saved_gate_up};
  for (size_t i = 0; i < std::size(all); ++i) {
    const auto overlaps = [&](const ConstTensorView& other) {
      return other.rank() > 0 && all[i].rank() > 0 && all[i].Overlaps(other);
    };
    const bool is_apart = std::none_of(std::begin(inputs), std::end(inputs), overlaps) &&
                          std::none_of(std::begin(all), std::begin(all) + i, overlaps);
    OPST_CHECK_ARG(is_apart, kOp, "gradients must not overlap the arguments or each other",
                   all[i].ToString());
  }
}

void Clear(TensorView gradient) {
  if (gradient.rank() == 0) return;
  std::fill_n(gradient.mutable_as<float>(), gradient.shape().num_elements(), 0.0f);
}

// Starts all sums: what no row reaches must be 0.
void ClearGradients(const MoeFfnBackwardRequest& request) {
  Clear(request.gradients.d_expert_weights);
  Clear(request.d_x);
  if (request.options.weight_mode == OutputMode::kAdd) return;
  Clear(request.gradients.d_gate_up);
  Clear(request.gradients.d_down);
  Clear(request.gradients.d_gate_up_bias);
  Clear(request.gradients.d_down_bias);
}

// Experts from `begin` on that fit the workspace with all their rows; at least one.
int64_t EndOfPart(const MoeFfnBackwardRequest& request, int64_t begin, size_t workspace_bytes) {
  const size_t row_bytes = BackwardBytesPerRow(request);
  const size_t expert_bytes = BackwardExperts::BytesPerExpert(request);
  size_t bytes = 0;
  int64_t end = begin;
  while (end < request.plan.num_experts) {
    const auto rows = static_cast<size_t>(request.plan.expert_counts[static_cast<size_t>(end)]);
    bytes += expert_bytes + rows * row_bytes;
    if (end > begin && bytes > workspace_bytes) break;
    ++end;
  }
  return end;
}

// The rows of experts [begin, end), at most `max_rows` at a time.
void RunExperts(const Context& context, const MoeFfnBackwardRequest& request, int64_t begin,
                int64_t end, int64_t max_rows) {
  const auto& offsets = request.plan.expert_offsets;
  const auto& counts = request.plan.expert_counts;
  const auto first = static_cast<size_t>(begin);
  const auto last = static_cast<size_t>(end);
  int64_t most = 0;
  for (size_t expert = first; expert < last; ++expert) most = std::max(most, counts[expert]);
  if (most == 0) return;
  const BackwardExperts experts(context, request, begin, end);
  if (last - first > 1) {
    RunBackwardPart(context, request, experts,
                    {{offsets.begin() + begin, offsets.begin() + end},
                     {counts.begin() + begin, counts.begin() + end}});
    return;
  }
  for (int64_t row = 0; row < most; row += max_rows) {
    RunBackwardPart(context, request, experts,
                    {{offsets[first] + row}, {std::min(max_rows, most - row)}});
  }
}

}  // namespace

void MoeFfnBackward(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                    const ExpertTensors& experts, ConstTensorView d_out,
                    const MoeFfnBackwardOptions& options, const MoeFfnGradients& gradients) {
  const bool has_own_sums = gradients.d_x.rank() > 0 && (gradients.d_x.dtype() != DType::kF32 ||
                                                         !gradients.d_x.is_contiguous());
  MoeFfnBackwardRequest request{x, plan, experts, d_out, options, gradients, gradients.d_x};
  CheckInputs(request);
  CheckGradients(request);
  RequireIsa(context.config().GetChoice("isa"));
  const Tensor sums = has_own_sums ? Tensor(DType::kF32, x.shape()) : Tensor();
  if (has_own_sums) request.d_x = sums.view();
  ClearGradients(request);
  const size_t workspace_bytes = options.workspace_bytes > 0
                                     ? options.workspace_bytes
                                     : context.config().GetBytes("stage1_buffer_size");
  const size_t expert_bytes = BackwardExperts::BytesPerExpert(request);
  const size_t left = workspace_bytes > expert_bytes ? workspace_bytes - expert_bytes : 0;
  const auto max_rows = static_cast<int64_t>(
      std::clamp<size_t>(left / BackwardBytesPerRow(request), 1, size_t{1} << 30));
  for (int64_t begin = 0; begin < plan.num_experts;) {
    const int64_t end = EndOfPart(request, begin, workspace_bytes);
    RunExperts(context, request, begin, end, max_rows);
    begin = end;
  }
  if (!has_own_sums) return;
  ForRowBlocks(context, x.dim(0), kCopiedRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      ConvertFromFloat(reinterpret_cast<const float*>(sums.view().row(row)),
                       static_cast<size_t>(x.dim(1)), gradients.d_x.dtype(),
                       gradients.d_x.mutable_row(row));
    }
  });
}

}  // namespace opst
