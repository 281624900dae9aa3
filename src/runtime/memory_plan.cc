// Adds up what loading and generating will take.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/memory_plan.h"

#include <algorithm>

#include "base/check.h"
#include "base/config.h"
#include "base/free_memory.h"

namespace opst {
namespace {

constexpr uint64_t kBlock = 256;  // inputs per block of the kernels
constexpr uint64_t kFloat = sizeof(float);

uint64_t RoundUp(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

// What the decoder, its attention and the router keep for the tokens of one pass.
uint64_t ActivationFloats(const ModelConfig& model, uint64_t tokens) {
  const AttentionRecipe& attention = model.attention;
  const int64_t cached =
      attention.cached_heads() * (attention.cached_key_dim() + attention.cached_value_dim());
  const auto width = static_cast<uint64_t>(
      3 * model.hidden() + 2 * attention.num_heads * attention.cached_key_dim() +
      attention.num_heads * attention.cached_value_dim() + attention.output_width() +
      attention.query_width() + attention.latent.query_rank + 2 * cached + attention.rope.dim);
  const auto experts = static_cast<uint64_t>(model.routing.num_experts + model.routing.hidden_dim);
  const auto top_k = static_cast<uint64_t>(model.routing.top_k);
  // Logits of the router; ids, weights, and both maps of the plan.
  return tokens * (width + experts + 8 * top_k);
}

// Scores of all positions for the heads that share a cached head, per worker.
uint64_t AttentionFloats(const ModelConfig& model, uint64_t positions, uint64_t workers) {
  const AttentionRecipe& attention = model.attention;
  const auto heads =
      static_cast<uint64_t>(attention.num_heads / std::max<int64_t>(attention.cached_heads(), 1));
  const auto width =
      static_cast<uint64_t>(std::max(attention.cached_key_dim(), attention.cached_value_dim()));
  return workers * heads * (RoundUp(positions, kBlock) + 3 * RoundUp(width, kBlock));
}

// Tiles of a product, all workers together: inputs of one block for 128 rows, or of all blocks for
// few; results of 512 columns; the product's own.
uint64_t TileFloats(const ModelConfig& model, uint64_t workers) {
  const uint64_t inputs =
      std::max<uint64_t>(128 * kBlock, 16 * RoundUp(static_cast<uint64_t>(model.hidden()), kBlock));
  return workers * (inputs + 128 * 512 + (64 << 10));
}

// The fused layer keeps to its bound, but needs room for one token and for its workers' tiles.
uint64_t LayerBytes(const Context& context, const ModelConfig& model, uint64_t tokens,
                    uint64_t workers) {
  const auto ffn =
      static_cast<uint64_t>(std::max({model.ffn.ffn, model.ffn.shared_ffn, model.dense_ffn}));
  const auto rows = static_cast<uint64_t>(std::max<int64_t>(model.routing.top_k, 1));
  const uint64_t per_token = rows * RoundUp(ffn, kBlock) + workers * kBlock;
  const uint64_t fixed = TileFloats(model, workers);
  const uint64_t bound = context.config().GetBytes("stage1_buffer_size");
  const uint64_t wanted = (fixed + tokens * per_token) * kFloat;
  return std::max(std::min<uint64_t>(wanted, bound), (fixed + per_token) * kFloat);
}

}  // namespace

int64_t EstimateActiveExperts(int64_t batch_size, int64_t seq_len, int64_t num_experts,
                              int64_t top_k) {
  const double expected = 1.5 * static_cast<double>(top_k) * static_cast<double>(batch_size) *
                          static_cast<double>(seq_len);
  return expected < static_cast<double>(num_experts) ? static_cast<int64_t>(expected) : num_experts;
}

MemoryPlan PlanMemory(const Context& context, const Model& model,
                      const MemoryPlanOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 40;
  for (const int64_t value : {options.context_length, options.batch_size, options.prefill_chunk}) {
    OPST_CHECK_ARG(value >= 1 && value <= kMost, "plan",
                   Concat("context length, batch size and prefill chunk must be 1..", kMost),
                   value);
  }
  const ModelConfig& config = model.config();
  const auto workers = static_cast<uint64_t>(context.num_threads());
  const auto batch = static_cast<uint64_t>(options.batch_size);
  const int64_t pass = std::min(options.prefill_chunk, options.context_length);
  const auto tokens = static_cast<uint64_t>(std::max(pass, options.batch_size));
  const auto positions = static_cast<uint64_t>(options.context_length);
  const auto vocabulary = static_cast<uint64_t>(config.vocab_size);
  const Model::WeightBytes weights = model.CountWeightBytes();
  MemoryPlan plan;
  plan.weight_bytes = weights.all;
  const uint64_t one_text = model.SequenceBytes(options.context_length);
  constexpr uint64_t kTooMuch = UINT64_MAX / 4;  // sums of a few do not overflow
  plan.kv_cache_bytes = one_text > kTooMuch / batch ? kTooMuch : batch * one_text;
  // Logits twice, for probabilities; a candidate of sampling has 24 bytes. Products inside of
  // others have tiles of their own.
  plan.workspace_bytes = (ActivationFloats(config, tokens) +
                          AttentionFloats(config, positions, workers) + 2 * batch * vocabulary) *
                             kFloat +
                         24 * vocabulary + 2 * kFloat * TileFloats(config, workers) +
                         LayerBytes(context, config, tokens, workers);
  const int64_t num_experts = config.routing.num_experts;
  plan.num_active_experts = EstimateActiveExperts(1, pass, num_experts, config.routing.top_k);
  plan.base_bytes = weights.all - weights.routed_experts;
  if (num_experts > 0) {
    plan.active_expert_bytes = weights.routed_experts / static_cast<uint64_t>(num_experts) *
                               static_cast<uint64_t>(plan.num_active_experts);
  }
  return plan;
}

uint64_t AvailableMemoryBytes() {
  const size_t bytes = FreeMemoryBytes();
  return bytes == SIZE_MAX ? UINT64_MAX : bytes;
}

}  // namespace opst
