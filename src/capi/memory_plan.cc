// The memory plan of a model.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/memory_plan.h"

#include "capi/conversions.h"

using opst::capi::Call;
using opst::capi::Make;

opst_status opst_plan_memory(const opst_context* context, const opst_model* model,
                             const opst_memory_plan_options* options, opst_memory_plan* plan) {
  return opst::capi::Run(__func__, [&](const Call& call) {
    const auto given =
        call.Options(options, opst_memory_plan_options OPST_MEMORY_PLAN_OPTIONS_DEFAULT);
    const opst::MemoryPlan found =
        opst::PlanMemory(opst::capi::Use(call, context), *call.Get(model, "model"),
                         {given.context_length, given.batch_size, given.prefill_chunk});
    opst_memory_plan result = OPST_MEMORY_PLAN_DEFAULT;
    result.weight_bytes = found.weight_bytes;
    result.kv_cache_bytes = found.kv_cache_bytes;
    result.workspace_bytes = found.workspace_bytes;
    result.total_bytes = found.total_bytes();
    result.num_active_experts = found.num_active_experts;
    result.base_bytes = found.base_bytes;
    result.active_expert_bytes = found.active_expert_bytes;
    result.rule_of_thumb_bytes = found.rule_of_thumb_bytes();
    call.Fill(plan, result, "plan");
  });
}

opst_status opst_estimate_active_experts(int64_t batch_size, int64_t seq_len, int64_t num_experts,
                                         int64_t top_k, int64_t* num_active_experts) {
  return Make(__func__, num_active_experts, [&](const Call&) {
    *num_active_experts = opst::EstimateActiveExperts(batch_size, seq_len, num_experts, top_k);
  });
}

opst_status opst_available_memory_bytes(uint64_t* num_bytes) {
  return Make(__func__, num_bytes, [&](const Call&) { *num_bytes = opst::AvailableMemoryBytes(); });
}
