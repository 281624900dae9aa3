// Balance of expert load without a loss: a tracker of who is busy, and the bias that steers away.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_LOAD_BALANCE_H_
#define OPST_C_LOAD_BALANCE_H_

#include "opst/c/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// The running load of E experts. Threads: usable from several threads; a call sees whole updates.
typedef struct opst_load_tracker opst_load_tracker;

typedef struct opst_load_tracker_options {
  uint32_t struct_size;
  uint32_t reserved;
  double decay;  // what a batch leaves of the past, 0 ... 1 (not 1)
} opst_load_tracker_options;

#define OPST_LOAD_TRACKER_OPTIONS_DEFAULT \
  { .struct_size = sizeof(opst_load_tracker_options), .reserved = 0, .decay = 0.99 }

OPST_API opst_status opst_load_tracker_create(int64_t num_experts,
                                              const opst_load_tracker_options* options,
                                              opst_load_tracker** tracker);
OPST_API opst_status opst_load_tracker_destroy(opst_load_tracker* tracker);
// Counts a batch: expert_counts [E] i64.
OPST_API opst_status opst_load_tracker_observe(opst_load_tracker* tracker,
                                               const opst_view* expert_counts);
// utilization [E] f32: load over the mean load; all 1 before the first row.
OPST_API opst_status opst_load_tracker_utilization(const opst_load_tracker* tracker,
                                                   const opst_view* utilization);
// load [E] f64: what a tracker knows. Restored, it goes on with the same bits.
OPST_API opst_status opst_load_tracker_save(const opst_load_tracker* tracker,
                                            const opst_view* load);
OPST_API opst_status opst_load_tracker_restore(opst_load_tracker* tracker, const opst_view* load);

typedef struct opst_bias_update_options {
  uint32_t struct_size;
  int32_t centers;  // 1 = the mean of the step is taken off again
  float rate;
  uint32_t reserved;
} opst_bias_update_options;

#define OPST_BIAS_UPDATE_OPTIONS_DEFAULT \
  { .struct_size = sizeof(opst_bias_update_options), .centers = 1, .rate = 1e-3f, .reserved = 0 }

// expert_counts [E] i64; bias [E] f32, updated in place.
OPST_API opst_status opst_update_selection_bias(const opst_view* expert_counts,
                                                const opst_bias_update_options* options,
                                                const opst_view* bias);

typedef struct opst_expert_placement_options {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t num_slots;   // R of all ranks, at least E
  int64_t num_ranks;   // D; rank d has slots d * R / D ...
  int64_t num_nodes;   // N; node n has ranks n * D / N ...
  int64_t num_groups;  // of experts that stay on one node, when N divides it
} opst_expert_placement_options;

#define OPST_EXPERT_PLACEMENT_OPTIONS_DEFAULT                                            \
  {                                                                                      \
    .struct_size = sizeof(opst_expert_placement_options), .reserved = 0, .num_slots = 0, \
    .num_ranks = 1, .num_nodes = 1, .num_groups = 1                                      \
  }

// loads [E] f64; expert_of_slot and copy_of_slot [R] i32, num_copies [E] i32, all written.
OPST_API opst_status opst_plan_expert_placement(const opst_view* loads,
                                                const opst_expert_placement_options* options,
                                                const opst_view* expert_of_slot,
                                                const opst_view* copy_of_slot,
                                                const opst_view* num_copies);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_LOAD_BALANCE_H_
