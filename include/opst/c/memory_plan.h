// How much memory a model will need, known before anything is computed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_MEMORY_PLAN_H_
#define OPST_C_MEMORY_PLAN_H_

#include "opst/c/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct opst_memory_plan_options {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t context_length;  // tokens of one text
  int64_t batch_size;      // texts at once
  int64_t prefill_chunk;   // prompt tokens per pass
} opst_memory_plan_options;

#define OPST_MEMORY_PLAN_OPTIONS_DEFAULT                                                    \
  {                                                                                         \
    .struct_size = sizeof(opst_memory_plan_options), .reserved = 0, .context_length = 2048, \
    .batch_size = 1, .prefill_chunk = 512                                                   \
  }

typedef struct opst_memory_plan {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t weight_bytes;
  uint64_t kv_cache_bytes;
  uint64_t workspace_bytes;    // at most
  uint64_t total_bytes;        // of the three
  int64_t num_active_experts;  // per layer, in a pass of the prompt
  uint64_t base_bytes;
  uint64_t active_expert_bytes;
  uint64_t rule_of_thumb_bytes;  // 1.2 * (base + active experts)
} opst_memory_plan;

#define OPST_MEMORY_PLAN_DEFAULT                                                          \
  {                                                                                       \
    .struct_size = sizeof(opst_memory_plan), .reserved = 0, .weight_bytes = 0,            \
    .kv_cache_bytes = 0, .workspace_bytes = 0, .total_bytes = 0, .num_active_experts = 0, \
    .base_bytes = 0, .active_expert_bytes = 0, .rule_of_thumb_bytes = 0                   \
  }

OPST_API opst_status opst_plan_memory(const opst_context* context, const opst_model* model,
                                      const opst_memory_plan_options* options,
                                      opst_memory_plan* plan);

// min(num_experts, 1.5 * top_k * batch_size * seq_len)
OPST_API opst_status opst_estimate_active_experts(int64_t batch_size, int64_t seq_len,
                                                  int64_t num_experts, int64_t top_k,
                                                  int64_t* num_active_experts);

// Bytes that this process can still take without swapping; UINT64_MAX when nothing can be read.
OPST_API opst_status opst_available_memory_bytes(uint64_t* num_bytes);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_MEMORY_PLAN_H_
