// Qwen3-MoE: RMS norm per query and key head, some layers may be dense.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadQwen3Moe(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model);
  ReadRouting(config, "num_experts", model);
  model.routing.renormalizes = config.Bool("norm_topk_prob", false);
  model.ffn.ffn = config.Integer("moe_intermediate_size", 1, kMaxFfn);
  model.dense_ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.is_moe = ReadSparseLayers(config, model.num_layers);
  model.attention.qk_norm = AttentionRecipe::QkNorm::kPerHead;
  if (config.Bool("use_sliding_window", false)) {
    model.attention.sliding_window = config.Integer("sliding_window", 1, kMaxPositions);
  }
  config.Require("attention_bias", {"false"});
  config.Ignore({"sliding_window", "max_window_layers"});  // without use_sliding_window
  return model;
}

}  // namespace

Family Qwen3Moe() { return {"qwen3_moe", ReadQwen3Moe, {}}; }

}  // namespace opst
