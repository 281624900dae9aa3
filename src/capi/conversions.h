// Option structs that several families take, as their C++ counterparts; defined where their family
// is. Views and pointers of the result are the caller's memory.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CAPI_CONVERSIONS_H_
#define OPST_CAPI_CONVERSIONS_H_

#include <optional>

#include "capi/call.h"
#include "capi/handles.h"

namespace opst::capi {

// The context of a call; throws Cancelled when it was cancelled.
const Context& Use(const Call& call, const opst_context* context);

RoutingPlanOptions ToPlanOptions(const Call& call, const opst_routing_plan_options* options);
// The arrays of a plan, borrowed.
opst_routing_plan_arrays ArraysOf(const RoutingPlan& plan);

// None for NULL.
std::optional<SelectionOptions> ToSelection(const Call& call,
                                            const opst_selection_options* options);
GatingOptions ToGatingOptions(const Call& call, const opst_gating_options* options);

ExpertWeights ToExpertWeights(const Call& call, const opst_expert_weights* experts,
                              const char* name);

ExpertChoice ToExpertChoice(const Call& call, const opst_model_experts* experts);
// Calls on_routing unless it is NULL; throws Cancelled between layers when the context is
// cancelled.
std::function<void(int64_t layer, const RoutingPlan& plan)> ToOnRouting(
    const opst_context* context, opst_routing_callback on_routing, void* user);

// A view of memory that the library owns.
opst_view Borrow(const ConstTensorView& view);

}  // namespace opst::capi

#endif  // OPST_CAPI_CONVERSIONS_H_
