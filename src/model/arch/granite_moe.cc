// Granite-MoE (IBM Granite 3 MoE): Mixtral's routing, with multipliers on embeddings, scores,
// residuals and logits.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

float ReadMultiplier(ConfigReader& config, std::string_view key) {
  return static_cast<float>(config.Number(key, 1e-6, 1e6, 1.0));
}

ModelConfig ReadGraniteMoe(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model);
  ReadRouting(config, "num_experts", model);
  model.routing.renormalizes = true;  // softmax over the chosen logits
  model.ffn.ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.attention.has_qkv_bias = config.Bool("attention_bias", false);
  model.attention.has_output_bias = model.attention.has_qkv_bias;
  model.attention.score_scale = ReadMultiplier(config, "attention_multiplier");
  model.embedding_scale = ReadMultiplier(config, "embedding_multiplier");
  model.residual_scale = ReadMultiplier(config, "residual_multiplier");
  model.logit_divisor = ReadMultiplier(config, "logits_scaling");
  model.is_moe.assign(static_cast<size_t>(model.num_layers), true);
  return model;
}

}  // namespace

Family GraniteMoe() {
  TensorNames names;
  names.router =
      "model.layers.{layer}.block_sparse_moe.router.layer.weight|"
      "model.layers.{layer}.block_sparse_moe.router.weight";
  names.fused_gate_up =
      "model.layers.{layer}.block_sparse_moe.input_linear.weight|"
      "model.layers.{layer}.block_sparse_moe.experts.gate_up_proj";
  names.fused_down =
      "model.layers.{layer}.block_sparse_moe.output_linear.weight|"
      "model.layers.{layer}.block_sparse_moe.experts.down_proj";
  return {"granitemoe", ReadGraniteMoe, names};
}

}  // namespace opst
