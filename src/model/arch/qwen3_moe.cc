// Qwen3-MoE: RMS norm per query and key head, some layers may be dense.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "model/arch/families.h"

namespace opst {
namespace {

// A layer is dense when it is listed, or when it is not the last of its group of `step` layers.
std::vector<bool> MoeLayers(const std::vector<int64_t>& dense, int64_t step, int64_t num_layers) {
  std::vector<bool> is_moe;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const bool is_listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    is_moe.push_back(!is_listed && (layer + 1) % step == 0);
  }
  return is_moe;
}

ModelConfig ReadQwen3Moe(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model);
  model.routing.num_experts = ReadNumExperts(config);
  model.routing.top_k = config.Integer("num_experts_per_tok", 1, model.routing.num_experts);
  model.routing.renormalizes = config.Bool("norm_topk_prob", false);
  model.ffn.ffn = config.Integer("moe_intermediate_size", 1, 1 << 24);
  model.dense_ffn = config.Integer("intermediate_size", 1, 1 << 24);
  const auto dense = config.Integers("mlp_only_layers", 0, model.num_layers - 1);
  const int64_t step = config.Integer("decoder_sparse_step", 1, model.num_layers, 1);
  model.is_moe = MoeLayers(dense, step, model.num_layers);
  model.attention.qk_norm = AttentionRecipe::QkNorm::kPerHead;
  if (config.Bool("use_sliding_window", false)) {
    model.attention.sliding_window = config.Integer("sliding_window", 1, 1LL << 31);
  }
  config.Require("attention_bias", {"false"});
  config.Ignore({"sliding_window", "max_window_layers"});  // without use_sliding_window
  return model;
}

}  // namespace

Family Qwen3Moe() { return {"qwen3_moe", ReadQwen3Moe, {}}; }

}  // namespace opst
