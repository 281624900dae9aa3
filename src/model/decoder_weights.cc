// Takes every weight of the decoder from the packed file.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "kernels/rows.h"
#include "model/decoder.h"

namespace opst {
namespace {

AttentionWeights LoadAttention(const PackedModel& file, int64_t layer) {
  AttentionWeights weights;
  weights.norm = file.Vector(Role::kAttentionNorm, layer);
  weights.qkv = file.Panels(Role::kQkv, layer);
  if (file.config().attention.qk_norm != AttentionRecipe::QkNorm::kNone) {
    weights.query_norm = file.Vector(Role::kQueryNorm, layer);
    weights.key_norm = file.Vector(Role::kKeyNorm, layer);
  }
  weights.out = file.Panels(Role::kAttentionOut, layer);
  return weights;
}

DecoderLayer LoadLayer(const PackedModel& file, int64_t layer) {
  const ModelConfig& config = file.config();
  DecoderLayer result;
  result.attention = LoadAttention(file, layer);
  result.ffn_norm = file.Vector(Role::kFfnNorm, layer);
  if (!config.is_moe[static_cast<size_t>(layer)]) {
    result.dense =
        ExpertWeights{file.Panels(Role::kDenseGateUp, layer), file.Panels(Role::kDenseDown, layer)};
    return result;
  }
  auto store = std::make_shared<LocalExpertStore>(
      ExpertWeights{file.Panels(Role::kGateUp, layer), file.Panels(Role::kDown, layer)});
  result.moe.emplace(config.routing, config.ffn,
                     RouterWeights{file.Panels(Role::kRouter, layer), {}}, std::move(store));
  return result;
}

}  // namespace

DecoderWeights::DecoderWeights(const PackedModel& file)
    : config(file.config()),
      final_norm(file.Vector(Role::kFinalNorm)),
      head(file.Panels(Role::kHead)),
      rope(config.attention.head_dim, config.attention.rope_theta) {
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    layers.push_back(LoadLayer(file, layer));
  }
  if (!config.ties_embeddings) embedding_ = file.Rows(Role::kEmbedding);
}

void DecoderWeights::Embed(std::span<const int32_t> tokens, TensorView x) const {
  const int64_t hidden = config.hidden();
  for (size_t token = 0; token < tokens.size(); ++token) {
    auto* row = reinterpret_cast<float*>(x.mutable_row(static_cast<int64_t>(token)));
    if (embedding_) {
      ConvertToFloat(embedding_->dtype(), embedding_->row(tokens[token]),
                     static_cast<size_t>(hidden), row);
    } else {
      for (int64_t h = 0; h < hidden; ++h) row[h] = head.At(0, tokens[token], h);
    }
  }
}

}  // namespace opst
