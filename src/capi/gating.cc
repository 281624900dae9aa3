// Gating, its plan and its gradient.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/gating.h"

#include "capi/conversions.h"

namespace opst::capi {

std::optional<SelectionOptions> ToSelection(const Call& call, const opst_selection_options* given) {
  if (given == nullptr) return {};
  const auto options =
      call.Options(given, opst_selection_options OPST_SELECTION_OPTIONS_DEFAULT, "selection");
  SelectionOptions result{.rule = call.Choice<SelectionRule>(options.rule, "selection.rule"),
                          .threshold = options.threshold,
                          .top_p = options.top_p};
  for (const opst_entropy_threshold& entry : call.Array(
           options.entropy_thresholds, options.num_entropy_thresholds, "entropy_thresholds")) {
    result.entropy_thresholds.push_back({entry.entropy, entry.num_experts});
  }
  return result;
}

GatingOptions ToGatingOptions(const Call& call, const opst_gating_options* given) {
  const auto options = call.Options(given, opst_gating_options OPST_GATING_OPTIONS_DEFAULT);
  return {.top_k = options.top_k,
          .score_function = call.Choice<ScoreFunction>(options.score_function, "score_function"),
          .selection = ToSelection(call, options.selection).value_or(SelectionOptions{}),
          .selection_bias = call.OptionalValues<float>(options.selection_bias, "selection_bias"),
          .load_balance_ratio = options.load_balance_ratio,
          .utilization = call.OptionalValues<float>(options.utilization, "utilization"),
          .num_groups = options.num_groups,
          .num_kept_groups = options.num_kept_groups,
          .group_score = call.Choice<GroupScore>(options.group_score, "group_score"),
          .sparsemixer_epsilon = options.sparsemixer_epsilon,
          .renormalizes = call.Claim(options.renormalizes, "renormalizes"),
          .renormalization_epsilon = options.renormalization_epsilon,
          .scale = options.scale,
          .is_padding = call.Padding(options.is_padding)};
}

}  // namespace opst::capi

using opst::capi::Call;
using opst::capi::ToGatingOptions;
using opst::capi::Use;

opst_status opst_gate(const opst_context* context, const opst_view* logits,
                      const opst_gating_options* options, const opst_gating_outputs* outputs) {
  return opst::capi::Run(__func__, [&](const Call& call) {
    const auto out =
        call.Required(outputs, opst_gating_outputs OPST_GATING_OUTPUTS_DEFAULT, "outputs");
    opst::GatingOptions gating = ToGatingOptions(call, options);
    gating.returns_scores = out.scores != nullptr;
    const opst::GatingResult result =
        opst::Gate(Use(call, context), call.In(logits, "logits"), gating);
    const auto ids = call.Room<int32_t>(out.expert_ids, result.expert_ids.size(), "expert_ids");
    const auto weights =
        call.Room<float>(out.expert_weights, result.expert_weights.size(), "expert_weights");
    const auto scores = call.Room<float>(out.scores, result.scores.size(), "scores");
    std::copy_n(result.expert_ids.begin(), ids.size(), ids.begin());
    std::copy_n(result.expert_weights.begin(), weights.size(), weights.begin());
    std::copy_n(result.scores.begin(), scores.size(), scores.begin());
    if (out.num_empty_rows != nullptr) *out.num_empty_rows = result.num_empty_rows;
  });
}

opst_status opst_route(const opst_context* context, const opst_view* logits,
                       const opst_gating_options* options,
                       const opst_routing_plan_options* plan_options, opst_routing_plan** plan) {
  return opst::capi::Make(__func__, plan, [&](const Call& call) {
    call.Create(plan,
                opst::Route(Use(call, context), call.In(logits, "logits"),
                            ToGatingOptions(call, options), ToPlanOptions(call, plan_options)));
  });
}

opst_status opst_gate_backward(const opst_context* context, const opst_view* logits,
                               const opst_view* expert_ids, const opst_view* d_weights,
                               const opst_gating_options* options, const opst_view* d_logits) {
  return opst::capi::Run(__func__, [&](const Call& call) {
    const auto ids = call.Values<int32_t>(expert_ids, "expert_ids");
    opst::GatingResult result;
    result.expert_ids.assign(ids.begin(), ids.end());
    opst::GateBackward(Use(call, context), call.In(logits, "logits"), result,
                       call.In(d_weights, "d_weights"), ToGatingOptions(call, options),
                       call.Out(d_logits, "d_logits"));
  });
}
