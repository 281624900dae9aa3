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

struct ModelConfig {
  std::string family;  // model_type, "qwen3_moe"
  int64_t num_layers = 0;
  int64_t vocab_size = 0;     // rows of the embedding
  int64_t max_positions = 0;  // trained context length
  float norm_eps = 1e-6f;
  bool ties_embeddings = false;
  AttentionRecipe attention;
  RoutingRecipe routing;
  FfnRecipe ffn;             // of the MoE layers
  int64_t dense_ffn = 0;     // F of the dense layers
  std::vector<bool> is_moe;  // [num_layers]
  std::vector<int64_t> end_tokens;

  int64_t hidden() const { return ffn.hidden; }
  // The recipe as readable JSON, stable under reading and writing again.
  std::string ToJson() const;
};

}  // namespace opst

#endif  // OPST_MODEL_CONFIG_H_
