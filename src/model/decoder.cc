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

// Rows [first, first + count) of a [T,H] matrix.
TensorView Rows(const TensorView& x, int64_t first, int64_t count) {
  return TensorView(x.mutable_row(first), DType::kF32, {count, x.dim(1)});
}

// The segments' places among the rows of a pass.
struct SegmentRows {
  const DecoderSegment& segment;
  int64_t first;
  int64_t count;
  std::vector<Rope::Angles> angles;
};

std::vector<SegmentRows> PlaceSegments(const Context& context, const DecoderWeights& weights,
                                       std::span<const DecoderSegment> segments) {
  std::vector<SegmentRows> places;
  int64_t first = 0;
  for (const DecoderSegment& segment : segments) {
    const size_t count = segment.tokens.size();
    places.push_back({segment, first, static_cast<int64_t>(count),
                      AnglesOf(context, weights.rope, segment.positions, count)});
    first += static_cast<int64_t>(count);
  }
  return places;
}

// Attention is each sequence's own; everything else sees the tokens of all of them as one batch.
void RunAttentionOfAll(const Context& context, const DecoderWeights& weights, int64_t index,
                       std::span<const SegmentRows> places, const DecoderBuffers& buffers) {
  const ModelConfig& config = weights.config;
  const DecoderLayer& layer = weights.layers[static_cast<size_t>(index)];
  NormRows(context, layer.attention_norm, config.norm_eps, buffers.x, buffers.normed);
  for (const SegmentRows& place : places) {
    const AttentionPass pass{config,
                             weights.rope,
                             place.angles,
                             place.segment.positions.first,
                             config.window(index),
                             place.segment.cache->layer(index)};
    RunAttention(context, layer.attention, pass, Rows(buffers.normed, place.first, place.count),
                 Rows(buffers.delta, place.first, place.count));
  }
}

// Only the last tokens' logits are wanted, and the head is the largest matrix.
void ComputeLogits(const Context& context, const DecoderWeights& weights,
                   std::span<const SegmentRows> places, const DecoderBuffers& buffers,
                   TensorView logits) {
  const ModelConfig& config = weights.config;
  const int64_t num_logits = logits.dim(0);
  int64_t done = 0;
  for (const SegmentRows& place : places) {
    const int64_t count = place.segment.num_logits;
    NormRows(context, weights.final_norm, config.norm_eps,
             Rows(buffers.x, place.first + place.count - count, count),
             Rows(buffers.normed, done, count));
    done += count;
  }
  Matmul(context, Rows(buffers.normed, 0, num_logits), weights.head, logits);
  AddBias(context, weights.head_bias, logits);
  if (config.logit_divisor == 1) return;
  ForTokens(context, num_logits, [&](int64_t token) {
    float* row = FloatRow(logits, token);
    for (int64_t id = 0; id < config.vocab_size; ++id) row[id] /= config.logit_divisor;
  });
}

}  // namespace

void ForwardTokens(const Context& context, const DecoderWeights& weights,
                   std::span<const DecoderSegment> segments, TensorView logits,
                   const ForwardOptions& options) {
  const ModelConfig& config = weights.config;
  const std::vector<SegmentRows> places = PlaceSegments(context, weights, segments);
  const int64_t num_tokens = places.back().first + places.back().count;
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const DecoderBuffers buffers = TakeBuffers(*arena, num_tokens, config.hidden());
  for (const SegmentRows& place : places) {
    weights.Embed(context, place.segment.tokens, Rows(buffers.x, place.first, place.count));
  }
  for (int64_t index = 0; index < config.num_layers; ++index) {
    const DecoderLayer& layer = weights.layers[static_cast<size_t>(index)];
    RunAttentionOfAll(context, weights, index, places, buffers);
    AddDelta(context, config.residual_scale, buffers);
    NormRows(context, layer.ffn_norm, config.norm_eps, buffers.x, buffers.normed);
    if (layer.moe) {
      const RoutingPlan plan =
          layer.moe->Forward(context, buffers.normed, buffers.delta,
                             options.experts.ForLayer(index, config.routing.num_experts));
      if (options.on_routing) options.on_routing(index, plan);
    } else {
      RunDense(context, config, *layer.dense, buffers);
    }
    AddDelta(context, config.residual_scale, buffers);
    if (options.on_layer) options.on_layer(index, buffers.x);
  }
  ComputeLogits(context, weights, places, buffers, logits);
}

}  // namespace opst
