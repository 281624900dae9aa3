// Expert-choice routing: experts take tokens. Token choice is gating.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_EXPERT_CHOICE_H_
#define OPST_C_EXPERT_CHOICE_H_

#include "opst/c/routing_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opst_expert_choice_options {
  uint32_t struct_size;
  int32_t renormalizes;
  double capacity_factor;       // experts that serve a token, on average
  const opst_view* is_padding;  // [T] u8 or bool; NULL = none
} opst_expert_choice_options;

#define OPST_EXPERT_CHOICE_OPTIONS_DEFAULT                                                      \
  {                                                                                             \
    .struct_size = sizeof(opst_expert_choice_options), .renormalizes = 0, .capacity_factor = 2, \
    .is_padding = NULL                                                                          \
  }

// logits [T, E] f32, rows may be strided.
OPST_API opst_status opst_route_by_expert_choice(const opst_context* context,
                                                 const opst_view* logits,
                                                 const opst_expert_choice_options* options,
                                                 opst_routing_plan** plan);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_EXPERT_CHOICE_H_
