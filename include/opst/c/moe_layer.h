// opst_moe_layer: router, routed experts and shared experts of one layer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_MOE_LAYER_H_
#define OPST_C_MOE_LAYER_H_

#include "opst/c/gating.h"
#include "opst/c/load_balance.h"
#include "opst/c/moe_ffn.h"

#ifdef __cplusplus
extern "C" {
#endif

// Threads: usable from several threads.
typedef struct opst_moe_layer opst_moe_layer;

// What a layer is made of. Packed weights are shared, not copied, and may be destroyed afterwards;
// views are copied. Sizes follow from the weights: H and F from the experts, E from their number.
typedef struct opst_moe_layer_parts {
  uint32_t struct_size;
  uint32_t reserved;
  const opst_packed_weights* router;         // 1 x [E, H], or [E, D] behind router_hidden
  const opst_packed_weights* router_hidden;  // 1 x [D, H]: logits = W_r tanh(W_h x); NULL = none
  const opst_view* router_bias;              // [E] f32; NULL = none
  const opst_view* selection_bias;           // [E] f32; NULL = none
  const opst_expert_weights* experts;
  const opst_expert_weights* shared;       // one expert that serves every token; NULL = none
  const opst_packed_weights* shared_gate;  // 1 x [1, H]: times sigmoid(x g); NULL = none
} opst_moe_layer_parts;

#define OPST_MOE_LAYER_PARTS_DEFAULT                                                     \
  {                                                                                      \
    .struct_size = sizeof(opst_moe_layer_parts), .reserved = 0, .router = NULL,          \
    .router_hidden = NULL, .router_bias = NULL, .selection_bias = NULL, .experts = NULL, \
    .shared = NULL, .shared_gate = NULL                                                  \
  }

typedef struct opst_moe_layer_options {
  uint32_t struct_size;
  opst_score_function score_function;
  int64_t top_k;
  const opst_selection_options* selection;  // NULL = all k
  int64_t num_groups;
  int64_t num_kept_groups;
  opst_group_score group_score;
  int32_t renormalizes;
  float scale;
  float sparsemixer_epsilon;
  float load_balance_ratio;  // above 0, the layer tracks its load and passes busy experts over
  opst_activation activation;
  float alpha;  // of CLAMPED_SWIGLU, as
  float limit;  // this
} opst_moe_layer_options;

#define OPST_MOE_LAYER_OPTIONS_DEFAULT                                                    \
  {                                                                                       \
    .struct_size = sizeof(opst_moe_layer_options), .score_function = OPST_SCORES_SOFTMAX, \
    .top_k = 2, .selection = NULL, .num_groups = 1, .num_kept_groups = 1,                 \
    .group_score = OPST_GROUPS_BY_MAX, .renormalizes = 1, .scale = 1,                     \
    .sparsemixer_epsilon = 0.01f, .load_balance_ratio = 0, .activation = OPST_SILU,       \
    .alpha = 1.702f, .limit = 7                                                           \
  }

OPST_API opst_status opst_moe_layer_create(const opst_moe_layer_parts* parts,
                                           const opst_moe_layer_options* options,
                                           opst_moe_layer** layer);
OPST_API opst_status opst_moe_layer_destroy(opst_moe_layer* layer);

// What a caller changes in the routing of one call.
typedef struct opst_routing_override {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t top_k;                  // 0 = the layer's
  const int32_t* masked_experts;  // [num_masked_experts], never chosen
  int64_t num_masked_experts;
  const opst_selection_options* selection;  // NULL = the layer's
} opst_routing_override;

#define OPST_ROUTING_OVERRIDE_DEFAULT                                        \
  {                                                                          \
    .struct_size = sizeof(opst_routing_override), .reserved = 0, .top_k = 0, \
    .masked_experts = NULL, .num_masked_experts = 0, .selection = NULL       \
  }

// x [T, H] f32, bf16 or f16 -> out [T, H] of x's dtype, and the plan that was used (NULL = not
// wanted).
OPST_API opst_status opst_moe_layer_forward(const opst_context* context,
                                            const opst_moe_layer* layer, const opst_view* x,
                                            const opst_routing_override* changes,
                                            const opst_view* out, opst_routing_plan** plan);

// The layer's own tracker, to be read, saved and restored. Errors: a layer without
// load_balance_ratio.
OPST_API opst_status opst_moe_layer_load_tracker(const opst_moe_layer* layer,
                                                 opst_load_tracker** tracker);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_MOE_LAYER_H_
