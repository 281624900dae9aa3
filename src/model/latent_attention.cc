// Multi-head latent attention, with the up projections moved from the cache to queries and outputs.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/scratch_pool.h"
#include "kernels/norm.h"
#include "model/attention_block.h"
#include "nn/attention.h"
#include "opst/ops/grouped_matmul.h"

namespace opst {
namespace {

TensorView Take(ScratchArena& arena, int64_t rows, int64_t columns) {
  return TensorView(arena.Take<float>(static_cast<size_t>(rows * columns)), Shape{rows, columns});
}

// out[h·T + t] = W_h x[h·T + t]: one matrix per head.
void MatmulPerHead(const Context& context, TensorView x, const PackedWeights& weights,
                   int64_t num_tokens, TensorView out) {
  std::vector<int64_t> offsets;
  for (int64_t head = 0; head <= weights.num_experts(); ++head) {
    offsets.push_back(head * num_tokens);
  }
  GroupedMatmul(context, x, offsets, weights, out);
}

// x [T, heads·d] before rotation.
void ComputeQueries(const Context& context, const LatentProjections& weights,
                    const LatentRecipe& recipe, TensorView x, TensorView queries) {
  if (recipe.query_rank == 0) {
    Matmul(context, x, weights.query_up, queries);
    return;
  }
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const TensorView down = Take(*arena, x.dim(0), recipe.query_rank);
  Matmul(context, x, weights.query_down, down);
  NormRows(context, weights.query_down_norm, recipe.norm_eps, down, down);
  Matmul(context, down, weights.query_up, queries);
}

// Latents and the shared key of every token, into the cache.
void StoreLatents(const Context& context, const LatentProjections& weights,
                  const AttentionPass& pass, TensorView x) {
  const AttentionRecipe& recipe = pass.config.attention;
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const TensorView down = Take(*arena, x.dim(0), recipe.cached_key_dim());
  Matmul(context, x, weights.kv_down, down);
  NormRows(context, weights.kv_down_norm, recipe.latent.norm_eps, down, down);
  ForTokens(context, x.dim(0), [&](int64_t token) {
    float* latent = FloatRow(down, token);
    pass.rope.Rotate(pass.angles[static_cast<size_t>(token)], 1, 0, latent + recipe.latent.kv_rank);
    pass.cache.Store(pass.first_position + token, latent, latent);
  });
}

// Queries [T, heads·(kv_rank + rope dim)] that meet cached latents and keys.
void AbsorbQueries(const Context& context, const LatentProjections& weights,
                   const AttentionPass& pass, TensorView queries, TensorView absorbed) {
  const AttentionRecipe& recipe = pass.config.attention;
  const LatentRecipe& latent = recipe.latent;
  const int64_t num_tokens = queries.dim(0);
  const int64_t heads = recipe.num_heads;
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const TensorView content = Take(*arena, heads * num_tokens, latent.content_dim);
  ForTokens(context, num_tokens, [&](int64_t token) {
    float* query = FloatRow(queries, token);
    pass.rope.Rotate(pass.angles[static_cast<size_t>(token)], heads, recipe.head_dim,
                     query + latent.content_dim);
    for (int64_t head = 0; head < heads; ++head) {
      std::copy_n(query + head * recipe.head_dim, latent.content_dim,
                  FloatRow(content, head * num_tokens + token));
    }
  });
  const TensorView lifted = Take(*arena, heads * num_tokens, latent.kv_rank);
  MatmulPerHead(context, content, weights.key_up, num_tokens, lifted);
  ForTokens(context, num_tokens, [&](int64_t token) {
    for (int64_t head = 0; head < heads; ++head) {
      float* out = FloatRow(absorbed, token) + head * recipe.cached_key_dim();
      std::copy_n(FloatRow(lifted, head * num_tokens + token), latent.kv_rank, out);
      std::copy_n(FloatRow(queries, token) + head * recipe.head_dim + latent.content_dim,
                  recipe.rope.dim, out + latent.kv_rank);
    }
  });
}

// heads [T, heads·value_dim] from the weighted latents [T, heads·kv_rank].
void ExpandValues(const Context& context, const LatentProjections& weights,
                  const AttentionRecipe& recipe, TensorView attended, TensorView heads) {
  const LatentRecipe& latent = recipe.latent;
  const int64_t num_tokens = attended.dim(0);
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const TensorView latents = Take(*arena, recipe.num_heads * num_tokens, latent.kv_rank);
  const TensorView values = Take(*arena, recipe.num_heads * num_tokens, latent.value_dim);
  ForTokens(context, num_tokens, [&](int64_t token) {
    for (int64_t head = 0; head < recipe.num_heads; ++head) {
      std::copy_n(FloatRow(attended, token) + head * latent.kv_rank, latent.kv_rank,
                  FloatRow(latents, head * num_tokens + token));
    }
  });
  MatmulPerHead(context, latents, weights.value_up, num_tokens, values);
  ForTokens(context, num_tokens, [&](int64_t token) {
    for (int64_t head = 0; head < recipe.num_heads; ++head) {
      std::copy_n(FloatRow(values, head * num_tokens + token), latent.value_dim,
                  FloatRow(heads, token) + head * latent.value_dim);
    }
  });
}

// A token needs heads·kv_rank elements several times over: half a megabyte for 128 heads of rank
// 512. Slices bound that to about 64 MB, which still gives every product dozens of rows.
int64_t SliceTokens(const AttentionRecipe& recipe, int64_t num_tokens) {
  constexpr int64_t kSliceFloats = int64_t{16} << 20;
  const int64_t floats = recipe.num_heads * 3 * recipe.cached_key_dim();
  return std::clamp<int64_t>(kSliceFloats / floats, 1, num_tokens);
}

// Tokens whose latents are in the cache already.
void AttendSlice(const Context& context, const LatentProjections& weights,
                 const AttentionPass& pass, TensorView x, TensorView heads) {
  const AttentionRecipe& recipe = pass.config.attention;
  const int64_t num_tokens = x.dim(0);
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const TensorView queries = Take(*arena, num_tokens, recipe.query_width());
  const TensorView absorbed = Take(*arena, num_tokens, recipe.num_heads * recipe.cached_key_dim());
  const TensorView attended = Take(*arena, num_tokens, recipe.num_heads * recipe.latent.kv_rank);
  ComputeQueries(context, weights, recipe.latent, x, queries);
  AbsorbQueries(context, weights, pass, queries, absorbed);
  const AttendOptions options{
      .num_heads = recipe.num_heads, .scale = recipe.score_scale, .window = pass.window};
  Attend(context, absorbed, pass.first_position, options, pass.cache, attended);
  ExpandValues(context, weights, recipe, attended, heads);
}

}  // namespace

void AttendLatent(const Context& context, const LatentProjections& weights,
                  const AttentionPass& pass, TensorView x, TensorView heads) {
  const AttentionRecipe& recipe = pass.config.attention;
  StoreLatents(context, weights, pass, x);
  const int64_t num_tokens = x.dim(0);
  const int64_t slice = SliceTokens(recipe, num_tokens);
  for (int64_t begin = 0; begin < num_tokens; begin += slice) {
    const int64_t count = std::min(slice, num_tokens - begin);
    const auto rows = [&](const TensorView& all) {
      return TensorView(all.mutable_row(begin), DType::kF32, {count, all.dim(1)});
    };
    const AttentionPass part{pass.config,
                             pass.rope,
                             pass.angles.subspan(static_cast<size_t>(begin)),
                             pass.first_position + begin,
                             pass.window,
                             pass.cache};
    AttendSlice(context, weights, part, rows(x), rows(heads));
  }
}

}  // namespace opst
