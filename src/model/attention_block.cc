// Attention with a key and a value per head, and the output projection of both kinds.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/attention_block.h"

#include <cmath>

#include "base/scratch_pool.h"
#include "kernels/norm.h"
#include "nn/attention.h"
#include "opst/ops/grouped_matmul.h"

namespace opst {
namespace {

// Norm, clip and rotation of one token's queries or keys.
void PrepareHeads(const AttentionPass& pass, const std::vector<float>& norm, int64_t num_heads,
                  const Rope::Angles& angles, float* heads) {
  const AttentionRecipe& recipe = pass.config.attention;
  const auto width = static_cast<size_t>(num_heads * recipe.head_dim);
  // One norm weight per head, or one over all of them.
  for (size_t begin = 0; !norm.empty() && begin < width; begin += norm.size()) {
    RmsNorm(heads + begin, norm.data(), norm.size(), pass.config.norm_eps, heads + begin);
  }
  if (recipe.qkv_clip > 0) Clamp(heads, width, recipe.qkv_clip);
  pass.rope.Rotate(angles, num_heads, recipe.head_dim, heads);
}

void AttendHeads(const Context& context, const HeadProjections& weights, const AttentionPass& pass,
                 TensorView x, TensorView heads) {
  const AttentionRecipe& recipe = pass.config.attention;
  const int64_t num_tokens = x.dim(0);
  const int64_t width = recipe.query_width() + 2 * recipe.kv_width();
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const TensorView qkv(arena->Take<float>(static_cast<size_t>(num_tokens * width)),
                       Shape{num_tokens, width});
  Matmul(context, x, weights.qkv, qkv);
  AddBias(context, weights.bias, qkv);
  ForTokens(context, num_tokens, [&](int64_t token) {
    float* queries = FloatRow(qkv, token);
    float* keys = queries + recipe.query_width();
    float* values = keys + recipe.kv_width();
    const Rope::Angles& angles = pass.angles[static_cast<size_t>(token)];
    PrepareHeads(pass, weights.query_norm, recipe.num_heads, angles, queries);
    PrepareHeads(pass, weights.key_norm, recipe.num_kv_heads, angles, keys);
    if (recipe.qkv_clip > 0) {
      Clamp(values, static_cast<size_t>(recipe.kv_width()), recipe.qkv_clip);
    }
    pass.cache.Store(pass.first_position + token, keys, values);
  });
  const float natural = 1.0f / std::sqrt(static_cast<float>(recipe.head_dim));
  const AttendOptions options{.num_heads = recipe.num_heads,
                              .scale = recipe.score_scale > 0 ? recipe.score_scale : natural,
                              .window = pass.window,
                              .sinks = weights.sinks};
  const TensorView queries(qkv.mutable_data(), DType::kF32, {num_tokens, recipe.query_width()},
                           width);
  Attend(context, queries, pass.first_position, options, pass.cache, heads);
}

}  // namespace

void RunAttention(const Context& context, const AttentionWeights& weights,
                  const AttentionPass& pass, TensorView x, TensorView out) {
  const AttentionRecipe& recipe = pass.config.attention;
  const Shape shape{x.dim(0), recipe.output_width()};
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const TensorView heads(arena->Take<float>(static_cast<size_t>(shape.num_elements())), shape);
  if (recipe.is_latent()) {
    AttendLatent(context, weights.latent, pass, x, heads);
  } else {
    AttendHeads(context, weights.heads, pass, x, heads);
  }
  Matmul(context, heads, weights.out, out);
  AddBias(context, weights.out_bias, out);
}

}  // namespace opst
