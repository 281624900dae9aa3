// Mixtral: softmax over the chosen experts, plain attention; and LLaMA-MoE v2, which calls itself
// mixtral and adds a scale, a residual expert and dense layers at both ends.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadMixtral(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model, {.theta = 1e6});
  ReadRouting(config, "num_experts", model);
  // Softmax over the chosen logits equals softmax over all, renormalised over the chosen.
  model.routing.renormalizes = true;
  model.routing.scale = static_cast<float>(config.Number("scale_factor", 0, 1e6, 1.0));
  model.ffn.ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.ffn.shared_ffn = config.Integer("intermediate_size_residual", 1, kMaxFfn, 0);
  model.attention.sliding_window = config.Integer("sliding_window", 1, kMaxPositions, 0);
  // So many layers at each end are dense and as wide as all experts together.
  const int64_t ends = config.Integer("num_moe_contract_layers", 0, model.num_layers / 2, 0);
  if (ends > 0) model.dense_ffn = model.ffn.ffn * model.routing.num_experts;
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    model.is_moe.push_back(layer >= ends && layer < model.num_layers - ends);
  }
  config.Require("moe_type", {"\"modulelist\""});
  config.Require("use_attn_moe", {"false"});
  config.Require("add_rescale_bias", {"false"});
  config.Ignore({"router_jitter_noise", "use_layer_wise_balance", "top_k_attn", "scale_factor_attn",
                 "attn_experts"});  // of training, or of use_attn_moe
  return model;
}

}  // namespace

Family Mixtral() {
  TensorNames names;
  names.router =
      "model.layers.{layer}.block_sparse_moe.gate.weight|model.layers.{layer}.mlp.gate.weight";
  names.expert_gate = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight";
  names.expert_up = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight";
  names.expert_down = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight";
  names.shared_gate = "model.layers.{layer}.mlp_residual.w1.weight";
  names.shared_up = "model.layers.{layer}.mlp_residual.w3.weight";
  names.shared_down = "model.layers.{layer}.mlp_residual.w2.weight";
  names.dense_gate = "model.layers.{layer}.block_sparse_moe.w1.weight";
  names.dense_up = "model.layers.{layer}.block_sparse_moe.w3.weight";
  names.dense_down = "model.layers.{layer}.block_sparse_moe.w2.weight";
  return {"mixtral", ReadMixtral, names};
}

}  // namespace opst
