// OLMoE: many small experts, scores not renormalised by default, RMS norm across all query heads.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadOlmoe(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model);
  ReadRouting(config, "num_experts", model);
  model.routing.renormalizes = config.Bool("norm_topk_prob", false);
  model.ffn.ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.attention.qk_norm = AttentionRecipe::QkNorm::kAcrossHeads;
  model.attention.qkv_clip = static_cast<float>(config.Number("clip_qkv", 1e-6, 1e9, 0));
  model.is_moe.assign(static_cast<size_t>(model.num_layers), true);
  config.Require("attention_bias", {"false"});
  return model;
}

}  // namespace

Family Olmoe() { return {"olmoe", ReadOlmoe, {}}; }

}  // namespace opst
