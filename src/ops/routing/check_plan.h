// The check that operators make of a routing plan before they follow its indices.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_ROUTING_CHECK_PLAN_H_
#define OPST_OPS_ROUTING_CHECK_PLAN_H_

#include <string_view>

#include "opst/routing_plan.h"

namespace opst {

// Throws kInvalidArgument unless the arrays have the plan's sizes, offsets ascend from 0 to R,
// every used row and its slot name each other and the row's expert, and an expert's rows stand in
// slot order. Plans of BuildRoutingPlan always pass; a plan may also be filled by hand.
// Cost: one pass over rows and slots.
void CheckPlan(std::string_view op, const RoutingPlan& plan);

}  // namespace opst

#endif  // OPST_OPS_ROUTING_CHECK_PLAN_H_
