// Top-k gating: from router logits to experts and mixing weights, and its gradient.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_GATING_H_
#define OPST_C_GATING_H_

#include "opst/c/routing_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t opst_score_function;
enum {
  OPST_SCORES_SOFTMAX = 0,
  OPST_SCORES_SIGMOID = 1,
  OPST_SCORES_SPARSEMIXER = 2,
  OPST_SCORES_SOFTMAX_OF_CHOSEN = 3
};

typedef int32_t opst_group_score;
enum { OPST_GROUPS_BY_MAX = 0, OPST_GROUPS_BY_TOP_TWO = 1 };

typedef int32_t opst_selection_rule;
enum {
  OPST_SELECT_TOP_K = 0,
  OPST_SELECT_THRESHOLD = 1,
  OPST_SELECT_TOP_P = 2,
  OPST_SELECT_ENTROPY = 3
};

// A row whose entropy over ln E is below `entropy` takes `num_experts`.
typedef struct opst_entropy_threshold {
  float entropy;
  int32_t num_experts;
} opst_entropy_threshold;

// How many of the top_k best experts a token takes.
typedef struct opst_selection_options {
  uint32_t struct_size;
  opst_selection_rule rule;
  float threshold;                                   // of THRESHOLD; 0 = 1/E
  float top_p;                                       // of TOP_P
  const opst_entropy_threshold* entropy_thresholds;  // of ENTROPY, ascending in both members
  int64_t num_entropy_thresholds;
} opst_selection_options;

#define OPST_SELECTION_OPTIONS_DEFAULT                                                        \
  {                                                                                           \
    .struct_size = sizeof(opst_selection_options), .rule = OPST_SELECT_TOP_K, .threshold = 0, \
    .top_p = 1, .entropy_thresholds = NULL, .num_entropy_thresholds = 0                       \
  }

typedef struct opst_gating_options {
  uint32_t struct_size;
  opst_score_function score_function;
  int64_t top_k;                            // k, slots of a token
  const opst_selection_options* selection;  // NULL = all k
  const opst_view* selection_bias;          // [E] f32, of the choice only; NULL = none
  const opst_view* utilization;             // [E] f32 load over the mean; NULL = none
  const opst_view* is_padding;              // [T] u8 or bool; NULL = none
  float load_balance_ratio;                 // above 0, needs utilization
  float sparsemixer_epsilon;
  int64_t num_groups;
  int64_t num_kept_groups;
  opst_group_score group_score;
  int32_t renormalizes;  // 1 = the chosen scores are divided by their sum
  float renormalization_epsilon;
  float scale;
} opst_gating_options;

#define OPST_GATING_OPTIONS_DEFAULT                                                                \
  {                                                                                                \
    .struct_size = sizeof(opst_gating_options), .score_function = OPST_SCORES_SOFTMAX, .top_k = 2, \
    .selection = NULL, .selection_bias = NULL, .utilization = NULL, .is_padding = NULL,            \
    .load_balance_ratio = 0, .sparsemixer_epsilon = 0.01f, .num_groups = 1, .num_kept_groups = 1,  \
    .group_score = OPST_GROUPS_BY_MAX, .renormalizes = 1, .renormalization_epsilon = 0, .scale = 1 \
  }

// Where opst_gate writes; NULL = not wanted.
typedef struct opst_gating_outputs {
  uint32_t struct_size;
  uint32_t reserved;
  const opst_view* expert_ids;      // [T, k] i32, -1 = an empty slot
  const opst_view* expert_weights;  // [T, k] f32
  const opst_view* scores;          // [T, E] f32, without bias
  int64_t* num_empty_rows;          // tokens without a usable logit
} opst_gating_outputs;

#define OPST_GATING_OUTPUTS_DEFAULT                                                \
  {                                                                                \
    .struct_size = sizeof(opst_gating_outputs), .reserved = 0, .expert_ids = NULL, \
    .expert_weights = NULL, .scores = NULL, .num_empty_rows = NULL                 \
  }

// logits [T, E] f32, rows may be strided; outputs are contiguous.
OPST_API opst_status opst_gate(const opst_context* context, const opst_view* logits,
                               const opst_gating_options* options,
                               const opst_gating_outputs* outputs);

// The plan of what opst_gate chooses.
OPST_API opst_status opst_route(const opst_context* context, const opst_view* logits,
                                const opst_gating_options* options,
                                const opst_routing_plan_options* plan_options,
                                opst_routing_plan** plan);

// logits and options of the forward call, expert_ids [T, k] i32 that it gave, d_weights [T, k] f32
// -> d_logits [T, E] f32.
OPST_API opst_status opst_gate_backward(const opst_context* context, const opst_view* logits,
                                        const opst_view* expert_ids, const opst_view* d_weights,
                                        const opst_gating_options* options,
                                        const opst_view* d_logits);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_GATING_H_
