// Takes every weight of the decoder from the packed file.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <utility>

#include "base/check.h"
#include "kernels/rows.h"
#include "model/decoder.h"

namespace opst {
namespace {

// Panels or vectors of one layer, those that the recipe has.
struct LayerFile {
  const PackedModel& file;
  int64_t layer;

  PackedWeights Panels(Role role) const { return file.Panels(role, layer); }
  std::vector<float> Vector(Role role) const { return file.Vector(role, layer); }
  std::vector<float> VectorIf(bool is_there, Role role) const {
    return is_there ? Vector(role) : std::vector<float>();
  }
  NormWeights Norm(Role weight, Role bias) const {
    const bool has_bias = file.config().norm_kind == NormKind::kLayer;
    return {Vector(weight), VectorIf(has_bias, bias)};
  }
  ExpertWeights Gated(Role gate_up, Role down) const { return {Panels(gate_up), Panels(down)}; }
};

LatentProjections LoadLatent(const LayerFile& layer) {
  LatentProjections weights;
  if (layer.file.config().attention.latent.query_rank > 0) {
    weights.query_down = layer.Panels(Role::kQueryDown);
    weights.query_down_norm = {layer.Vector(Role::kQueryDownNorm), {}};
  }
  weights.query_up = layer.Panels(Role::kQueryUp);
  weights.kv_down = layer.Panels(Role::kKvDown);
  weights.kv_down_norm = {layer.Vector(Role::kKvDownNorm), {}};
  weights.key_up = layer.Panels(Role::kKeyUp);
  weights.value_up = layer.Panels(Role::kValueUp);
  return weights;
}

AttentionWeights LoadAttention(const LayerFile& layer) {
  const AttentionRecipe& recipe = layer.file.config().attention;
  AttentionWeights weights;
  if (recipe.is_latent()) {
    weights.latent = LoadLatent(layer);
  } else {
    const bool has_norms = recipe.qk_norm != AttentionRecipe::QkNorm::kNone;
    weights.heads = {layer.Panels(Role::kQkv), layer.VectorIf(recipe.has_qkv_bias, Role::kQkvBias),
                     layer.VectorIf(has_norms, Role::kQueryNorm),
                     layer.VectorIf(has_norms, Role::kKeyNorm),
                     layer.VectorIf(recipe.has_sinks, Role::kSinks)};
  }
  weights.out = layer.Panels(Role::kAttentionOut);
  weights.out_bias = layer.VectorIf(recipe.has_output_bias, Role::kAttentionOutBias);
  return weights;
}

RouterWeights LoadRouter(const LayerFile& layer) {
  const RoutingRecipe& recipe = layer.file.config().routing;
  RouterWeights router{
      .projection = layer.Panels(Role::kRouter),
      .selection_bias = layer.VectorIf(recipe.has_selection_bias, Role::kSelectionBias),
      .bias = layer.VectorIf(recipe.has_bias, Role::kRouterBias)};
  if (recipe.hidden_dim > 0) router.hidden = layer.Panels(Role::kRouterHidden);
  for (const auto* bias : {&router.selection_bias, &router.bias}) {
    for (size_t expert = 0; expert < bias->size(); ++expert) {
      OPST_CHECK_IO(std::isfinite((*bias)[expert]), layer.file.file().path(),
                    "router biases must be finite", "layer ", layer.layer, ", expert ", expert,
                    ": ", (*bias)[expert]);
    }
  }
  return router;
}

std::optional<SharedExpert> LoadShared(const LayerFile& layer) {
  const FfnRecipe& recipe = layer.file.config().ffn;
  if (recipe.shared_ffn == 0) return std::nullopt;
  SharedExpert shared{layer.Gated(Role::kSharedGateUp, Role::kSharedDown), {}};
  if (recipe.has_shared_gate) shared.gate = layer.Panels(Role::kSharedGate);
  return shared;
}

void LoadMoe(const LayerFile& layer, DecoderLayer& result) {
  const ModelConfig& config = layer.file.config();
  ExpertWeights experts = layer.Gated(Role::kGateUp, Role::kDown);
  if (config.ffn.has_bias) {
    ExpertBiases& biases = result.expert_biases;
    biases = {layer.Vector(Role::kGateUpBias), layer.Vector(Role::kDownBias)};
    const int64_t num_experts = config.routing.num_experts;
    experts.gate_up_bias =
        ConstTensorView(biases.gate_up.data(), Shape{num_experts, 2 * config.ffn.ffn});
    experts.down_bias = ConstTensorView(biases.down.data(), Shape{num_experts, config.hidden()});
  }
  result.moe.emplace(config.routing_of(layer.layer), config.ffn, LoadRouter(layer),
                     std::make_shared<LocalExpertStore>(std::move(experts)), LoadShared(layer));
}

DecoderLayer LoadLayer(const LayerFile& layer) {
  DecoderLayer result;
  result.attention_norm = layer.Norm(Role::kAttentionNorm, Role::kAttentionNormBias);
  result.attention = LoadAttention(layer);
  result.ffn_norm = layer.Norm(Role::kFfnNorm, Role::kFfnNormBias);
  if (layer.file.config().is_moe[static_cast<size_t>(layer.layer)]) {
    LoadMoe(layer, result);
  } else {
    result.dense = layer.Gated(Role::kDenseGateUp, Role::kDenseDown);
  }
  return result;
}

}  // namespace

DecoderWeights::DecoderWeights(const PackedModel& file)
    : config(file.config()), head(file.Panels(Role::kHead)), rope(config.attention.rope) {
  const LayerFile whole{file, -1};
  final_norm = whole.Norm(Role::kFinalNorm, Role::kFinalNormBias);
  head_bias = whole.VectorIf(config.has_head_bias, Role::kHeadBias);
  layers.reserve(static_cast<size_t>(config.num_layers));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    layers.push_back(LoadLayer({file, layer}));
  }
  if (!config.ties_embeddings) embedding_ = file.Rows(Role::kEmbedding);
}

void DecoderWeights::Embed(const Context& context, std::span<const int32_t> tokens,
                           TensorView x) const {
  const int64_t hidden = config.hidden();
  ForTokens(context, static_cast<int64_t>(tokens.size()), [&](int64_t token) {
    const int32_t id = tokens[static_cast<size_t>(token)];
    float* row = FloatRow(x, token);
    if (embedding_) {
      ConvertToFloat(embedding_->dtype(), embedding_->row(id), static_cast<size_t>(hidden), row);
    } else {
      // A column of 16 rows per element, each in a cache line of its own: tokens share the workers.
      for (int64_t h = 0; h < hidden; ++h) row[h] = head.At(0, id, h);
    }
    if (config.embedding_scale == 1) return;
    for (int64_t h = 0; h < hidden; ++h) row[h] *= config.embedding_scale;
  });
}

}  // namespace opst
