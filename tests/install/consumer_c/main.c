// A user's first program in C: routes four tokens to two of three experts. Not an example of speed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <opst/opst.h>
#include <stdio.h>

int main(void) {
  const float logits[] = {3, 2, 1, 1, 3, 2, 2, 1, 3, 3, 1, 2};
  const opst_view view = opst_matrix(OPST_F32, logits, 4, 3);
  opst_context* context = NULL;
  opst_routing_plan* plan = NULL;
  opst_routing_plan_arrays arrays = OPST_ROUTING_PLAN_ARRAYS_DEFAULT;
  if (opst_context_create(NULL, &context) != OPST_OK) return 1;
  if (opst_route(context, &view, NULL, NULL, &plan) != OPST_OK) return 1;
  if (opst_routing_plan_get(plan, &arrays) != OPST_OK || arrays.num_rows != 8) return 1;
  opst_gating_options options = OPST_GATING_OPTIONS_DEFAULT;
  options.top_k = 4;
  opst_routing_plan* refused = NULL;
  if (opst_route(context, &view, &options, NULL, &refused) != OPST_INVALID_ARGUMENT) return 1;
  printf("opst %s: %d rows; refused as it should be: %s\n", opst_version(), (int)arrays.num_rows,
         opst_last_error());
  opst_routing_plan_destroy(plan);
  opst_context_destroy(context);
  return 0;
}
