// The fused feed-forward layer, forward and backward.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/moe_ffn.h"

#include "capi/conversions.h"
#include "opst/ops/moe_ffn_backward.h"

namespace opst::capi {

ExpertWeights ToExpertWeights(const Call& call, const opst_expert_weights* experts,
                              const char* name) {
  const auto given = call.Required(experts, opst_expert_weights OPST_EXPERT_WEIGHTS_DEFAULT, name);
  return {.gate_up = call.Get(given.gate_up, "gate_up"),
          .down = call.Get(given.down, "down"),
          .gate_up_bias = call.OptionalIn(given.gate_up_bias, "gate_up_bias"),
          .down_bias = call.OptionalIn(given.down_bias, "down_bias")};
}

}  // namespace opst::capi

using opst::capi::Call;
using opst::capi::Run;
using opst::capi::Use;

opst_status opst_moe_ffn(const opst_context* context, const opst_view* x,
                         const opst_routing_plan* plan, const opst_expert_weights* experts,
                         const opst_moe_ffn_options* options, const opst_view* out) {
  return Run(__func__, [&](const Call& call) {
    const auto given = call.Options(options, opst_moe_ffn_options OPST_MOE_FFN_OPTIONS_DEFAULT);
    const opst::MoeFfnOptions ffn{
        .activation = call.Choice<opst::Activation>(given.activation, "activation"),
        .output_mode = call.Choice<opst::OutputMode>(given.output_mode, "output_mode"),
        .limits = {.alpha = given.alpha, .limit = given.limit},
        .workspace_bytes = given.workspace_bytes};
    opst::MoeFfn(Use(call, context), call.In(x, "x"), call.Get(plan, "plan"),
                 ToExpertWeights(call, experts, "experts"), ffn, call.Out(out, "out"));
  });
}

opst_status opst_moe_ffn_backward(const opst_context* context, const opst_view* x,
                                  const opst_routing_plan* plan, const opst_expert_tensors* experts,
                                  const opst_view* d_out, const opst_moe_ffn_options* options,
                                  const opst_moe_ffn_gradients* gradients) {
  return Run(__func__, [&](const Call& call) {
    const auto weights =
        call.Required(experts, opst_expert_tensors OPST_EXPERT_TENSORS_DEFAULT, "experts");
    const auto given = call.Options(options, opst_moe_ffn_options OPST_MOE_FFN_OPTIONS_DEFAULT);
    const auto wanted = call.Required(
        gradients, opst_moe_ffn_gradients OPST_MOE_FFN_GRADIENTS_DEFAULT, "gradients");
    const opst::ExpertTensors tensors{
        .gate_up = call.In(weights.gate_up, "gate_up"),
        .down = call.In(weights.down, "down"),
        .gate_up_bias = call.OptionalIn(weights.gate_up_bias, "gate_up_bias"),
        .down_bias = call.OptionalIn(weights.down_bias, "down_bias")};
    const opst::MoeFfnBackwardOptions backward{
        .activation = call.Choice<opst::Activation>(given.activation, "activation"),
        .limits = {.alpha = given.alpha, .limit = given.limit},
        .weight_mode = call.Choice<opst::OutputMode>(given.output_mode, "output_mode"),
        .saved_gate_up = call.OptionalIn(weights.saved_gate_up, "saved_gate_up"),
        .workspace_bytes = given.workspace_bytes};
    opst::MoeFfnBackward(
        Use(call, context), call.In(x, "x"), call.Get(plan, "plan"), tensors,
        call.In(d_out, "d_out"), backward,
        {.d_x = call.OptionalOut(wanted.d_x, "d_x"),
         .d_expert_weights = call.OptionalOut(wanted.d_expert_weights, "d_expert_weights"),
         .d_gate_up = call.OptionalOut(wanted.d_gate_up, "d_gate_up"),
         .d_down = call.OptionalOut(wanted.d_down, "d_down"),
         .d_gate_up_bias = call.OptionalOut(wanted.d_gate_up_bias, "d_gate_up_bias"),
         .d_down_bias = call.OptionalOut(wanted.d_down_bias, "d_down_bias")});
  });
}
