// The forward pass of the decoder, layer by layer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
//
//   x = embedding[tokens]
//   each layer:  x += W_o attention(norm(x));  x += ffn(norm(x))
//   logits = W_head norm(x)
#include "model/decoder.h"

#include "base/scratch_pool.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "opst/ops/grouped_matmul.h"

namespace opst {
namespace {

// The activations of one chunk, all [T,H] f32.
struct DecoderBuffers {
  TensorView x;  // residual stream
  TensorView normed;
  TensorView delta;  // what a block adds
};

DecoderBuffers TakeBuffers(ScratchArena& arena, int64_t num_tokens, int64_t hidden) {
  const auto take = [&] {
    return TensorView(arena.Take<float>(static_cast<size_t>(num_tokens * hidden)),
                      Shape{num_tokens, hidden});
  };
  return {take(), take(), take()};
}

std::vector<Rope::Angles> AnglesOf(const Context& context, const Rope& rope,
                                   const Positions& positions, size_t num_tokens) {
  std::vector<Rope::Angles> angles(num_tokens);
  ForTokens(context, static_cast<int64_t>(num_tokens), [&](int64_t token) {
    angles[static_cast<size_t>(token)] = rope.At(positions.first + token, positions.text_length);
  });
  return angles;
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
  MoeFfn(context, buffers.normed, plan, weights,
         {.activation = config.ffn.activation, .limits = config.ffn.limits}, buffers.delta);
}

void AddDelta(const Context& context, float scale, const DecoderBuffers& buffers) {
  const auto hidden = static_cast<size_t>(buffers.x.dim(1));
  ForTokens(context, buffers.x.dim(0), [&](int64_t token) {
    if (scale == 1) {
      AddTo(FloatRow(buffers.delta, token), hidden, FloatRow(buffers.x, token));
    } else {
      ScaledAccumulate(scale, FloatRow(buffers.delta, token), hidden, FloatRow(buffers.x, token));
    }
  });
}

// Only the last tokens' logits are wanted, and the head is the largest matrix.
void ComputeLogits(const Context& context, const DecoderWeights& weights,
                   const DecoderBuffers& buffers, TensorView logits) {
  const ModelConfig& config = weights.config;
  const int64_t num_logits = logits.dim(0);
  const TensorView last(buffers.x.mutable_row(buffers.x.dim(0) - num_logits), DType::kF32,
                        {num_logits, config.hidden()});
  const TensorView normed(buffers.normed.mutable_data(), DType::kF32, last.shape());
  NormRows(context, weights.final_norm, config.norm_eps, last, normed);
  Matmul(context, normed, weights.head, logits);
  AddBias(context, weights.head_bias, logits);
  if (config.logit_divisor == 1) return;
  ForTokens(context, num_logits, [&](int64_t token) {
    float* row = FloatRow(logits, token);
    for (int64_t id = 0; id < config.vocab_size; ++id) row[id] /= config.logit_divisor;
  });
}

}  // namespace

void ForwardTokens(const Context& context, const DecoderWeights& weights,
                   std::span<const int32_t> tokens, const Positions& positions,
                   const KvCache& cache, TensorView logits, const ForwardOptions& options) {
  const ModelConfig& config = weights.config;
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const DecoderBuffers buffers = TakeBuffers(*arena, num_tokens, config.hidden());
  const auto angles = AnglesOf(context, weights.rope, positions, tokens.size());
  weights.Embed(tokens, buffers.x);
  for (int64_t index = 0; index < config.num_layers; ++index) {
    const DecoderLayer& layer = weights.layers[static_cast<size_t>(index)];
    const AttentionPass pass{config,          weights.rope,         angles,
                             positions.first, config.window(index), cache.layer(index)};
    NormRows(context, layer.attention_norm, config.norm_eps, buffers.x, buffers.normed);
    RunAttention(context, layer.attention, pass, buffers.normed, buffers.delta);
    AddDelta(context, config.residual_scale, buffers);
    NormRows(context, layer.ffn_norm, config.norm_eps, buffers.x, buffers.normed);
    if (layer.moe) {
      const RoutingPlan plan = layer.moe->Forward(context, buffers.normed, buffers.delta);
      if (options.on_routing) options.on_routing(index, plan);
    } else {
      RunDense(context, config, *layer.dense, buffers);
    }
    AddDelta(context, config.residual_scale, buffers);
    if (options.on_layer) options.on_layer(index, buffers.x);
  }
  ComputeLogits(context, weights, buffers, logits);
}

}  // namespace opst
