// MemoryPlan: how much memory a model will need, known before anything is computed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MEMORY_PLAN_H_
#define OPST_MEMORY_PLAN_H_

#include <cstdint>

#include "opst/context.h"
#include "opst/model.h"

namespace opst {

struct MemoryPlanOptions {
  int64_t context_length = 2048;  // tokens of one text, prompt and answer
  int64_t batch_size = 1;         // texts at once
  int64_t prefill_chunk = 512;    // prompt tokens per pass
};

struct MemoryPlan {
  uint64_t weight_bytes = 0;     // of the file; mapped pages can be dropped and read again
  uint64_t kv_cache_bytes = 0;   // for all texts at their full length
  uint64_t workspace_bytes = 0;  // at most: activations, routing, logits
  uint64_t total_bytes() const { return weight_bytes + kv_cache_bytes + workspace_bytes; }

  // The rule of thumb: total >= 1.2 · (base + active experts), where each layer is expected to use
  // min(E, 1.5 · k · tokens of a pass) experts. Base = everything but routed experts.
  int64_t num_active_experts = 0;  // per layer, in a pass of the prompt
  uint64_t base_bytes = 0;
  uint64_t active_expert_bytes = 0;
  uint64_t rule_of_thumb_bytes() const { return (base_bytes + active_expert_bytes) / 5 * 6; }
};

// The formula of the rule: min(num_experts, 1.5 · top_k · batch_size · seq_len).
int64_t EstimateActiveExperts(int64_t batch_size, int64_t seq_len, int64_t num_experts,
                              int64_t top_k = 2);

// Weights and keys and values are exact, the workspace is an upper bound. Computes nothing.
// Errors (kInvalidArgument): options below 1.
MemoryPlan PlanMemory(const Context& context, const Model& model,
                      const MemoryPlanOptions& options = {});

// Bytes that this process can still take without swapping: what the kernel calls available, or the
// rest of a control group's limit when that is less. UINT64_MAX when nothing can be read.
uint64_t AvailableMemoryBytes();

}  // namespace opst

#endif  // OPST_MEMORY_PLAN_H_
