// ModelConfig: the one recipe of a decoder that all families are mapped to. Data only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_CONFIG_H_
#define OPST_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "opst/attention_recipe.h"
#include "opst/moe_layer.h"

namespace opst {

enum class NormKind : uint8_t {
  kRms,    // w · x / √(mean(x²) + eps)
  kLayer,  // w · (x - mean(x)) / √(variance(x) + eps) + b
};

struct ModelConfig {
  std::string family;  // model_type, "qwen3_moe"
  int64_t num_layers = 0;
  int64_t vocab_size = 0;     // rows of the embedding
  int64_t max_positions = 0;  // trained context length
  NormKind norm_kind = NormKind::kRms;
  float norm_eps = 1e-6f;
  bool ties_embeddings = false;
  bool has_head_bias = false;
  float embedding_scale = 1.0f;  // multiplies embedding rows
  float residual_scale = 1.0f;   // multiplies what a block adds to the residual stream
  float logit_divisor = 1.0f;    // divides the logits
  AttentionRecipe attention;
  RoutingRecipe routing;
  FfnRecipe ffn;             // of the MoE layers; the activation is that of the dense ones too
  int64_t dense_ffn = 0;     // F of the dense layers
  std::vector<bool> is_moe;  // [num_layers]
  // [num_layers] whether a layer sees the sliding window only; empty = all layers do, if there is
  // a window.
  std::vector<bool> is_sliding;
  // [num_layers] replaces routing.scale; empty = routing.scale everywhere.
  std::vector<float> routing_scales;
  std::vector<int64_t> end_tokens;
  // Layers behind the last one that only guess further tokens. They are not converted.
  int64_t num_prediction_layers = 0;

  int64_t hidden() const { return ffn.hidden; }
  // Positions that tokens of a layer see, 0 = all.
  int64_t window(int64_t layer) const;
  RoutingRecipe routing_of(int64_t layer) const;
  // The recipe as readable JSON, stable under reading and writing again. Fields that came after
  // the first version are left out at their default, so that older packed files still compare
  // equal.
  std::string ToJson() const;
};

}  // namespace opst

#endif  // OPST_MODEL_CONFIG_H_
