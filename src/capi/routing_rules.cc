// Routing without a gate: expert choice and hash routing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "capi/conversions.h"
#include "opst/ops/expert_choice.h"
#include "opst/ops/hash_routing.h"

using opst::capi::Call;
using opst::capi::Make;
using opst::capi::Use;

opst_status opst_route_by_expert_choice(const opst_context* context, const opst_view* logits,
                                        const opst_expert_choice_options* options,
                                        opst_routing_plan** plan) {
  return Make(__func__, plan, [&](const Call& call) {
    const auto given =
        call.Options(options, opst_expert_choice_options OPST_EXPERT_CHOICE_OPTIONS_DEFAULT);
    const opst::ExpertChoiceRoutingOptions routing{
        .capacity_factor = given.capacity_factor,
        .renormalizes = call.Claim(given.renormalizes, "renormalizes"),
        .is_padding = call.Padding(given.is_padding)};
    call.Create(plan,
                opst::RouteByExpertChoice(Use(call, context), call.In(logits, "logits"), routing));
  });
}

opst_status opst_route_by_hash(const opst_context* context, const opst_view* token_ids,
                               const opst_hash_routing_options* options,
                               const opst_routing_plan_options* plan_options,
                               opst_routing_plan** plan) {
  return Make(__func__, plan, [&](const Call& call) {
    const auto given = call.Required(
        options, opst_hash_routing_options OPST_HASH_ROUTING_OPTIONS_DEFAULT, "options");
    const opst::HashRoutingOptions routing{
        .num_experts = given.num_experts,
        .top_k = given.top_k,
        .table = call.OptionalValues<int32_t>(given.table, "table"),
        .seed = given.seed};
    call.Create(plan, opst::RouteByHash(Use(call, context), call.In(token_ids, "token_ids"),
                                        routing, ToPlanOptions(call, plan_options)));
  });
}
