// The attention block of a layer: projections, positions, cache, attention, output. Norm before it
// and the residual sum are the decoder's.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_ATTENTION_BLOCK_H_
#define OPST_MODEL_ATTENTION_BLOCK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/token_rows.h"
#include "nn/kv_cache.h"
#include "nn/rope.h"
#include "opst/model_config.h"
#include "opst/packed_weights.h"

namespace opst {

// What attention with a key and a value per head has before its output.
struct HeadProjections {
  PackedWeights qkv;              // [(heads + 2·kv heads)·d, H]
  std::vector<float> bias;        // [(heads + 2·kv heads)·d] or empty
  std::vector<float> query_norm;  // empty, [d] or [heads·d]
  std::vector<float> key_norm;    // empty, [d] or [kv heads·d]
  std::vector<float> sinks;       // [heads] or empty
};

// The same of latent attention.
struct LatentProjections {
  PackedWeights query_down;     // [query_rank, H], unless query_rank is 0
  NormWeights query_down_norm;  // [query_rank]
  PackedWeights query_up;       // [heads·d, query_rank or H]
  PackedWeights kv_down;        // [kv_rank + rope dim, H]
  NormWeights kv_down_norm;     // [kv_rank]
  PackedWeights key_up;         // heads x [kv_rank, content_dim]
  PackedWeights value_up;       // heads x [value_dim, kv_rank]
};

struct AttentionWeights {
  HeadProjections heads;     // unless the recipe is latent
  LatentProjections latent;  // when it is
  PackedWeights out;         // [H, output_width]
  std::vector<float> out_bias;
};

// One chunk of tokens in one layer.
struct AttentionPass {
  const ModelConfig& config;
  const Rope& rope;
  std::span<const Rope::Angles> angles;  // of every token
  int64_t first_position;
  int64_t window;  // 0 = none
  const KvCache::Layer& cache;
};

// out = W_o attention(x) + b_o, and keys and values of x go into the cache.
//   x, out  [T,H] f32
void RunAttention(const Context& context, const AttentionWeights& weights,
                  const AttentionPass& pass, TensorView x, TensorView out);

// heads [T, heads·value_dim] = latent attention of x, before the output projection.
//
// The cache keeps, per position, the normed latent c and one rotated key k for all heads. With
// W_uk and W_uv the halves of the up projection of a head, its score is
//   (W_uk q_content)·c + q_rotated·k,   and its output   W_uv Σ_p weight(p) c(p):
// keys and values of single heads are never made, so attention runs as if there were one KV head.
void AttendLatent(const Context& context, const LatentProjections& weights,
                  const AttentionPass& pass, TensorView x, TensorView heads);

}  // namespace opst

#endif  // OPST_MODEL_ATTENTION_BLOCK_H_
