// opst_routing_plan: building, reading and printing plans.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/routing_plan.h"

#include "capi/conversions.h"

namespace opst::capi {

RoutingPlanOptions ToPlanOptions(const Call& call, const opst_routing_plan_options* given) {
  const auto options = call.Options(
      given, opst_routing_plan_options OPST_ROUTING_PLAN_OPTIONS_DEFAULT, "plan_options");
  return {.capacity_factor = options.capacity_factor,
          .min_capacity = options.min_capacity,
          .pads_to_capacity = call.Claim(options.pads_to_capacity, "pads_to_capacity"),
          .active_experts = {options.active_begin, options.active_end},
          .is_padding = call.Padding(options.is_padding),
          .drop_order = call.Choice<DropOrder>(options.drop_order, "drop_order")};
}

opst_view Borrow(const ConstTensorView& view) {
  opst_view result = OPST_NO_VIEW;
  result.data = const_cast<void*>(view.data());
  result.dtype = static_cast<opst_dtype>(view.dtype());
  result.rank = static_cast<int32_t>(view.rank());
  for (size_t axis = 0; axis < view.rank(); ++axis) result.shape[axis] = view.dim(axis);
  if (!view.is_contiguous()) result.row_stride = view.row_stride();
  return result;
}

opst_routing_plan_arrays ArraysOf(const RoutingPlan& plan) {
  const auto vector = [](const auto& values) {
    return Borrow(ConstTensorView(values.data(), Shape{static_cast<int64_t>(values.size())}));
  };
  const Shape slots{plan.num_tokens, plan.top_k};
  opst_routing_plan_arrays arrays = OPST_ROUTING_PLAN_ARRAYS_DEFAULT;
  arrays.num_tokens = plan.num_tokens;
  arrays.num_experts = plan.num_experts;
  arrays.top_k = plan.top_k;
  arrays.num_rows = plan.num_rows();
  arrays.num_dropped = plan.num_dropped;
  arrays.num_empty_rows = plan.num_empty_rows;
  arrays.expert_ids = Borrow(ConstTensorView(plan.expert_ids.data(), slots));
  arrays.expert_weights = Borrow(ConstTensorView(plan.expert_weights.data(), slots));
  arrays.expert_counts = vector(plan.expert_counts);
  arrays.expert_offsets = vector(plan.expert_offsets);
  arrays.row_to_slot = vector(plan.row_to_slot);
  arrays.slot_to_row = vector(plan.slot_to_row);
  return arrays;
}

}  // namespace opst::capi

using opst::capi::Call;
using opst::capi::Make;
using opst::capi::Use;

opst_status opst_routing_plan_build(const opst_context* context, const opst_view* expert_ids,
                                    const opst_view* expert_weights, int64_t num_experts,
                                    const opst_routing_plan_options* options,
                                    opst_routing_plan** plan) {
  return Make(__func__, plan, [&](const Call& call) {
    call.Create(plan, opst::BuildRoutingPlan(Use(call, context), call.In(expert_ids, "expert_ids"),
                                             call.In(expert_weights, "expert_weights"), num_experts,
                                             ToPlanOptions(call, options)));
  });
}

opst_status opst_routing_plan_build_from_map(const opst_context* context,
                                             const opst_view* routing_map, const opst_view* weights,
                                             const opst_routing_plan_options* options,
                                             opst_routing_plan** plan) {
  return Make(__func__, plan, [&](const Call& call) {
    call.Create(plan, opst::BuildRoutingPlanFromMap(
                          Use(call, context), call.In(routing_map, "routing_map"),
                          call.OptionalIn(weights, "weights"), ToPlanOptions(call, options)));
  });
}

opst_status opst_routing_plan_destroy(opst_routing_plan* plan) {
  return opst::capi::Destroy(__func__, plan);
}

opst_status opst_routing_plan_get(const opst_routing_plan* plan, opst_routing_plan_arrays* arrays) {
  return opst::capi::Run(__func__, [&](const Call& call) {
    call.Fill(arrays, opst::capi::ArraysOf(call.Get(plan, "plan")), "arrays");
  });
}

opst_status opst_routing_plan_format_csr(const opst_routing_plan* plan, int64_t max_entries,
                                         char** text) {
  return Make(__func__, text, [&](const Call& call) {
    *text = call.HandOver(opst::FormatAsCsr(call.Get(plan, "plan"), max_entries));
  });
}
