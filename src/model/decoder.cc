// The forward pass of the decoder, layer by layer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
//
//   x = embedding[tokens]
//   each layer:  x += W_o attention(norm(x));  x += ffn(norm(x))
//   logits = W_head norm(x)
#include "model/decoder.h"

#include "base/scratch_pool.h"
#include "base/thread_pool.h"
#include "kernels/norm.h"
#include "nn/attention.h"
#include "opst/ops/grouped_matmul.h"

namespace opst {
namespace {

// The activations of one chunk, all f32.
struct DecoderBuffers {
  TensorView x;       // [T,H] residual stream
  TensorView normed;  // [T,H]
  TensorView delta;   // [T,H] what a block adds
  TensorView qkv;     // [T,(heads + 2·kv heads)·d]
  TensorView heads;   // [T,heads·d]
};

DecoderBuffers TakeBuffers(ScratchArena& arena, const ModelConfig& config, int64_t num_tokens) {
  const auto take = [&](int64_t width) {
    return TensorView(arena.Take<float>(static_cast<size_t>(num_tokens * width)),
                      Shape{num_tokens, width});
  };
  const AttentionRecipe& attention = config.attention;
  return {take(config.hidden()), take(config.hidden()), take(config.hidden()),
          take(attention.query_width() + 2 * attention.kv_width()), take(attention.query_width())};
}

float* Row(const TensorView& x, int64_t row) {
  return reinterpret_cast<float*>(x.mutable_row(row));
}

void ForTokens(const Context& context, int64_t num_tokens, FunctionRef<void(int64_t token)> body) {
  context.pool().ParallelFor(static_cast<size_t>(num_tokens),
                             [&](size_t token, int) { body(static_cast<int64_t>(token)); });
}

void NormRows(const Context& context, TensorView x, const std::vector<float>& weight, float eps,
              TensorView out) {
  ForTokens(context, x.dim(0), [&](int64_t token) {
    RmsNorm(Row(x, token), weight.data(), weight.size(), eps, Row(out, token));
  });
}

// Norm, clip and rotation of one token's queries or keys.
void PrepareHeads(const ModelConfig& config, const std::vector<float>& norm, int64_t num_heads,
                  const Rope::Angles& angles, float* heads) {
  const auto head_dim = static_cast<size_t>(config.attention.head_dim);
  // One norm weight per head, or one over all of them.
  for (size_t begin = 0; !norm.empty() && begin < static_cast<size_t>(num_heads) * head_dim;
       begin += norm.size()) {
    RmsNorm(heads + begin, norm.data(), norm.size(), config.norm_eps, heads + begin);
  }
  const float clip = config.attention.qkv_clip;
  if (clip > 0) Clamp(heads, static_cast<size_t>(num_heads) * head_dim, clip);
  Rope::Rotate(angles, num_heads, heads);
}

void RunAttention(const Context& context, const DecoderWeights& weights,
                  const AttentionWeights& layer, int64_t first_position,
                  const KvCache::Layer& cache, const DecoderBuffers& buffers) {
  const ModelConfig& config = weights.config;
  const AttentionRecipe& recipe = config.attention;
  NormRows(context, buffers.x, layer.norm, config.norm_eps, buffers.normed);
  Matmul(context, buffers.normed, layer.qkv, buffers.qkv);
  ForTokens(context, buffers.x.dim(0), [&](int64_t token) {
    float* queries = Row(buffers.qkv, token);
    float* keys = queries + recipe.query_width();
    float* values = keys + recipe.kv_width();
    const Rope::Angles angles = weights.rope.At(first_position + token);
    PrepareHeads(config, layer.query_norm, recipe.num_heads, angles, queries);
    PrepareHeads(config, layer.key_norm, recipe.num_kv_heads, angles, keys);
    if (recipe.qkv_clip > 0) {
      Clamp(values, static_cast<size_t>(recipe.kv_width()), recipe.qkv_clip);
    }
    cache.Store(first_position + token, keys, values);
  });
  const TensorView queries(buffers.qkv.mutable_data(), DType::kF32,
                           {buffers.qkv.dim(0), recipe.query_width()}, buffers.qkv.dim(1));
  Attend(context, queries, first_position, recipe, cache, buffers.heads);
  Matmul(context, buffers.heads, layer.out, buffers.delta);
}

// A dense layer is a MoE layer with one expert that takes every token with weight 1.
void RunDense(const Context& context, const ModelConfig& config, const ExpertWeights& weights,
              const DecoderBuffers& buffers) {
  const int64_t num_tokens = buffers.x.dim(0);
  const std::vector<int32_t> ids(static_cast<size_t>(num_tokens), 0);
  const std::vector<float> ones(static_cast<size_t>(num_tokens), 1.0f);
  const Shape shape{num_tokens, 1};
  const RoutingPlan plan = BuildRoutingPlan(context, ConstTensorView(ids.data(), shape),
                                            ConstTensorView(ones.data(), shape), 1);
  MoeFfn(context, buffers.normed, plan, weights, {.activation = config.ffn.activation},
         buffers.delta);
}

void AddDelta(const Context& context, const DecoderBuffers& buffers) {
  ForTokens(context, buffers.x.dim(0), [&](int64_t token) {
    AddTo(Row(buffers.delta, token), static_cast<size_t>(buffers.x.dim(1)), Row(buffers.x, token));
  });
}

}  // namespace

void ForwardTokens(const Context& context, const DecoderWeights& weights,
                   std::span<const int32_t> tokens, int64_t first_position, const KvCache& cache,
                   TensorView logits, const ForwardOptions& options) {
  const ModelConfig& config = weights.config;
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const DecoderBuffers buffers = TakeBuffers(*arena, config, num_tokens);
  weights.Embed(tokens, buffers.x);
  for (int64_t index = 0; index < config.num_layers; ++index) {
    const DecoderLayer& layer = weights.layers[static_cast<size_t>(index)];
    RunAttention(context, weights, layer.attention, first_position, cache.layer(index), buffers);
    AddDelta(context, buffers);
    NormRows(context, buffers.x, layer.ffn_norm, config.norm_eps, buffers.normed);
    if (layer.moe) {
      const RoutingPlan plan = layer.moe->Forward(context, buffers.normed, buffers.delta);
      if (options.on_routing) options.on_routing(index, plan);
    } else {
      RunDense(context, config, *layer.dense, buffers);
    }
    AddDelta(context, buffers);
  }
  // Only the last tokens' logits are wanted, and the head is the largest matrix.
  const int64_t num_logits = logits.dim(0);
  const TensorView last(buffers.x.mutable_row(num_tokens - num_logits), DType::kF32,
                        {num_logits, config.hidden()});
  NormRows(context, last, weights.final_norm, config.norm_eps, buffers.normed);
  const TensorView normed(buffers.normed.mutable_data(), DType::kF32, last.shape());
  Matmul(context, normed, weights.head, logits);
}

}  // namespace opst
