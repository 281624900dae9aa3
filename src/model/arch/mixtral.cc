// Mixtral: softmax over the chosen two experts, no shared expert, plain attention.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/arch/families.h"

namespace opst {
namespace {

ModelConfig ReadMixtral(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model);
  model.routing.num_experts = ReadNumExperts(config);
  model.routing.top_k = config.Integer("num_experts_per_tok", 1, model.routing.num_experts);
  // Softmax over the chosen logits equals softmax over all, renormalised over the chosen.
  model.routing.renormalizes = true;
  model.ffn.ffn = config.Integer("intermediate_size", 1, 1 << 24);
  model.attention.sliding_window = config.Integer("sliding_window", 1, 1LL << 31, 0);
  model.is_moe.assign(static_cast<size_t>(model.num_layers), true);
  config.Ignore({"router_jitter_noise"});  // noise of training only
  return model;
}

}  // namespace

Family Mixtral() {
  TensorNames names;
  names.query_norm = names.key_norm = {};
  names.router =
      "model.layers.{layer}.block_sparse_moe.gate.weight|model.layers.{layer}.mlp.gate.weight";
  names.expert_gate = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight";
  names.expert_up = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight";
  names.expert_down = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight";
  return {"mixtral", ReadMixtral, names};
}

}  // namespace opst
