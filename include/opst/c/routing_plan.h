// opst_routing_plan: which token goes to which expert with what weight; no routing rule.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_ROUTING_PLAN_H_
#define OPST_C_ROUTING_PLAN_H_

#include "opst/c/context.h"
#include "opst/c/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// T tokens, k slots a token, E experts, R rows; slot = t * k + j. Threads: immutable, usable from
// several threads.
typedef struct opst_routing_plan opst_routing_plan;

// Who comes first when an expert is full: first choices of all tokens, then second ones; tokens in
// order; the largest weights.
typedef int32_t opst_drop_order;
enum { OPST_DROP_BY_CHOICE = 0, OPST_DROP_BY_TOKEN = 1, OPST_DROP_BY_WEIGHT = 2 };

typedef struct opst_routing_plan_options {
  uint32_t struct_size;
  int32_t pads_to_capacity;  // 1 = every expert's rows are filled up to the capacity
  double capacity_factor;    // 0 = dropless
  int64_t min_capacity;
  int64_t active_begin;  // only experts [begin, end) get rows; 0 and 0 = all
  int64_t active_end;
  const opst_view* is_padding;  // [T] u8 or bool, not 0 = no token; NULL = none
  opst_drop_order drop_order;
  uint32_t reserved;
} opst_routing_plan_options;

#define OPST_ROUTING_PLAN_OPTIONS_DEFAULT                                                          \
  {                                                                                                \
    .struct_size = sizeof(opst_routing_plan_options), .pads_to_capacity = 0, .capacity_factor = 0, \
    .min_capacity = 0, .active_begin = 0, .active_end = 0, .is_padding = NULL,                     \
    .drop_order = OPST_DROP_BY_CHOICE, .reserved = 0                                               \
  }

// expert_ids [T, k] i32, -1 = no row; expert_weights [T, k] f32; both contiguous.
OPST_API opst_status opst_routing_plan_build(const opst_context* context,
                                             const opst_view* expert_ids,
                                             const opst_view* expert_weights, int64_t num_experts,
                                             const opst_routing_plan_options* options,
                                             opst_routing_plan** plan);
// routing_map [T, E] bool, u8 or i8; weights [T, E] f32, NULL = all 1.
OPST_API opst_status opst_routing_plan_build_from_map(const opst_context* context,
                                                      const opst_view* routing_map,
                                                      const opst_view* weights,
                                                      const opst_routing_plan_options* options,
                                                      opst_routing_plan** plan);
OPST_API opst_status opst_routing_plan_destroy(opst_routing_plan* plan);

// The arrays are the plan's own, live as long as it does, and must not be written.
typedef struct opst_routing_plan_arrays {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t num_tokens;        // T
  int64_t num_experts;       // E
  int64_t top_k;             // k
  int64_t num_rows;          // R
  int64_t num_dropped;       // slots whose expert was full
  int64_t num_empty_rows;    // tokens without a usable logit
  opst_view expert_ids;      // [T, k] i32, -1 = no row
  opst_view expert_weights;  // [T, k] f32
  opst_view expert_counts;   // [E] i64
  opst_view expert_offsets;  // [E+1] i64
  opst_view row_to_slot;     // [R] i32, -1 = padding row
  opst_view slot_to_row;     // [T * k] i32, -1 = none
} opst_routing_plan_arrays;

#define OPST_ROUTING_PLAN_ARRAYS_DEFAULT                                                       \
  {                                                                                            \
    .struct_size = sizeof(opst_routing_plan_arrays), .reserved = 0, .num_tokens = 0,           \
    .num_experts = 0, .top_k = 0, .num_rows = 0, .num_dropped = 0, .num_empty_rows = 0,        \
    .expert_ids = OPST_NO_VIEW, .expert_weights = OPST_NO_VIEW, .expert_counts = OPST_NO_VIEW, \
    .expert_offsets = OPST_NO_VIEW, .row_to_slot = OPST_NO_VIEW, .slot_to_row = OPST_NO_VIEW   \
  }

OPST_API opst_status opst_routing_plan_get(const opst_routing_plan* plan,
                                           opst_routing_plan_arrays* arrays);

// The plan as CSR, experts x slots, one line an expert, at most `max_entries` of each. The text is
// the caller's: opst_free.
OPST_API opst_status opst_routing_plan_format_csr(const opst_routing_plan* plan,
                                                  int64_t max_entries, char** text);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_ROUTING_PLAN_H_
