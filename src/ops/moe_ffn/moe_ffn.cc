// Checks a fused MoE layer call, chooses the implementation and walks the chunks of tokens.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/moe_ffn.h"

#include <algorithm>

#include "base/scratch_pool.h"
#include "base/thread_pool.h"
#include "ops/implementation.h"
#include "ops/moe_ffn/fused.h"
#include "ops/ref/reference.h"
#include "ops/routing/check_plan.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "moe_ffn";

void CheckBias(const ConstTensorView& bias, const PackedWeights& weights, std::string_view rule) {
  if (bias.rank() == 0) return;
  const Shape shape{weights.num_experts(), weights.layout().out};
  OPST_CHECK_ARG(bias.shape() == shape && bias.dtype() == DType::kF32 && bias.is_contiguous(), kOp,
                 rule, bias.ToString(), " for ", weights.ToString());
}

void CheckRequest(const MoeFfnRequest& request) {
  const ConstTensorView& x = request.x;
  const TensorView& out = request.out;
  const PackedWeights& gate_up = request.experts->gate_up;
  const PackedWeights& down = request.experts->down;
  OPST_CHECK_ARG(x.rank() == 2 && IsModelFloat(x.dtype()), kOp,
                 "input must be [T,H] f32, bf16 or f16", x.ToString());
  OPST_CHECK_ARG(x.dim(1) > 0, kOp, "input dim 1 (H) must be positive", x.ToString());
  const bool has_output_type = out.dtype() == x.dtype() || out.dtype() == DType::kF32;
  OPST_CHECK_ARG(out.shape() == x.shape() && has_output_type, kOp,
                 "output must have the input's shape, and its dtype or f32", "output ",
                 out.ToString(), ", input ", x.ToString());
  OPST_CHECK_ARG(down.layout().order == PanelOrder::kPlain, kOp, "down must be in plain panels",
                 down.ToString());
  OPST_CHECK_ARG(gate_up.layout().in == x.dim(1) && down.layout().out == x.dim(1), kOp,
                 "gate_up dim 2 and down dim 1 must equal input dim 1 (H)", "gate_up ",
                 gate_up.ToString(), ", down ", down.ToString(), ", input ", x.ToString());
  const bool has_gate = request.experts->has_gate();
  OPST_CHECK_ARG(
      gate_up.layout().out == (has_gate ? 2 : 1) * down.layout().in, kOp,
      "gate_up dim 1 must be twice down dim 2 (F), in plain panels (no gate) equal to it",
      "gate_up ", gate_up.ToString(), ", down ", down.ToString());
  OPST_CHECK_ARG(has_gate || request.options->activation != Activation::kClampedSwiglu, kOp,
                 "clamped SwiGLU must have a gate", "gate_up ", gate_up.ToString());
  OPST_CHECK_ARG(gate_up.num_experts() == down.num_experts() &&
                     gate_up.num_experts() == request.plan->num_experts,
                 kOp, "plan, gate_up and down must have the same number of experts", "plan ",
                 request.plan->num_experts, ", gate_up ", gate_up.ToString(), ", down ",
                 down.ToString());
  CheckBias(request.experts->gate_up_bias, gate_up,
            "gate_up_bias must be [E,2F] (no gate: [E,F]) f32, contiguous");
  CheckBias(request.experts->down_bias, down, "down_bias must be [E,H] f32, contiguous");
  OPST_CHECK_ARG(request.plan->num_tokens == x.dim(0), kOp,
                 "plan must be of the input's tokens (T)", request.plan->num_tokens,
                 " tokens planned for input ", x.ToString());
  OPST_CHECK_ARG(!out.Overlaps(x), kOp, "output must not overlap the input", out.ToString());
  CheckPlan(kOp, *request.plan);
  for (int64_t expert = 0; expert < gate_up.num_experts(); ++expert) {
    const int64_t rows = request.plan->expert_counts[static_cast<size_t>(expert)];
    OPST_CHECK_ARG(rows == 0 || (gate_up.has(expert) && down.has(expert)), kOp,
                   "experts that have rows must have weights", "none for expert ", expert, " with ",
                   rows, " rows");
  }
}

// Tokens of one chunk: as many as keep all buffers within the setting stage1_buffer_size, at least
// one. What the pool keeps for other operators of the layer (the router's product) counts too, up
// to a quarter: idle memory of concurrent calls must not make chunks tiny.
int64_t ChunkTokens(const Context& context, const MoeFfnRequest& request, const FusedShape& shape) {
  const int workers = context.num_threads();
  const size_t wanted_bytes = request.options->workspace_bytes;
  const size_t whole_bytes =
      wanted_bytes > 0 ? wanted_bytes : context.config().GetBytes("stage1_buffer_size");
  // A sixty-fourth stays free for lists of tasks, page rounding and the allocator.
  const size_t setting_bytes = whole_bytes - whole_bytes / 64;
  const size_t kept_bytes = std::min(context.scratch().idle_bytes(), setting_bytes / 4);
  const size_t budget = (setting_bytes - kept_bytes) / sizeof(float);
  const size_t fixed = shape.worker_floats * static_cast<size_t>(workers);
  const size_t per_token = shape.token_floats(request.plan->top_k, workers);
  const size_t tokens = budget > fixed ? (budget - fixed) / per_token : 0;
  return std::clamp<int64_t>(static_cast<int64_t>(tokens), 1,
                             std::max<int64_t>(request.plan->num_tokens, 1));
}

// The memory of one call, cut once for its largest chunk.
struct FusedMemory {
  float* inputs;
  float* activations;
  float* workers;     // worker_floats each
  float* out_blocks;  // chunk tokens x column_floats each
};

// The end of the first section is the barrier: all activations of the chunk are there.
void RunChunk(const Context& context, const FusedShape& shape, FusedChunk& chunk,
              int64_t num_tokens, const FusedMemory& memory) {
  const size_t out_block_floats = static_cast<size_t>(num_tokens) * shape.column_floats;
  const auto scratch = [&](int worker) {
    return memory.workers + static_cast<size_t>(worker) * shape.worker_floats;
  };
  chunk.RoundInputs(context, memory.inputs);
  context.pool().ParallelFor(chunk.num_up_tasks(),
                             [&](size_t task, int worker) { chunk.RunUp(task, scratch(worker)); });
  context.pool().ParallelFor(chunk.num_down_tasks(), [&](size_t task, int worker) {
    chunk.RunDown(task, scratch(worker),
                  memory.out_blocks + static_cast<size_t>(worker) * out_block_floats);
  });
}

void MoeFfnFused(const Context& context, const MoeFfnRequest& request) {
  const auto workers = static_cast<size_t>(context.num_threads());
  const FusedShape shape(context, request);
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const int64_t chunk_tokens = ChunkTokens(context, request, shape);
  const auto tokens = static_cast<size_t>(chunk_tokens);
  const FusedMemory memory{
      arena->Take<float>(tokens * shape.input_floats),
      arena->Take<float>(tokens * static_cast<size_t>(request.plan->top_k) * shape.ffn_floats),
      arena->Take<float>(workers * shape.worker_floats),
      arena->Take<float>(workers * tokens * shape.column_floats)};
  const int64_t rows_per_task = context.config().GetInt("expert_batch_size");
  for (int64_t first = 0; first < request.plan->num_tokens; first += chunk_tokens) {
    const int64_t count = std::min(chunk_tokens, request.plan->num_tokens - first);
    const PlanChunk plan_chunk(*request.plan, first, count);
    FusedChunk chunk(request, shape, plan_chunk, rows_per_task, memory.activations);
    RunChunk(context, shape, chunk, count, memory);
  }
}

constexpr Implementation<MoeFfnRequest> kImplementations[] = {
    {"fused",
     [](const Context& context, const MoeFfnRequest&) { return DeclineIfReferenceForced(context); },
     MoeFfnFused},
    {"reference", TakesAll<MoeFfnRequest>, ref::MoeFfn},
};

}  // namespace

void MoeFfn(const Context& context, ConstTensorView x, const RoutingPlan& plan,
            const ExpertWeights& experts, const MoeFfnOptions& options, TensorView out) {
  const MoeFfnRequest request{x, &plan, &experts, &options, out};
  CheckRequest(request);
  Dispatch<MoeFfnRequest>(context, kOp, kImplementations, request);
}

}  // namespace opst
