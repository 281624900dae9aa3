// Phi-3.5-MoE: sparsemixer routing, layer norms, biases in attention and head, longrope.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadPhiMoe(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model, {.theta = 1e6});
  ReadRouting(config, "num_experts", model);
  if (model.routing.top_k != 2) config.Refuse("num_experts_per_tok", "must be 2 for sparsemixer");
  model.routing.score_function = ScoreFunction::kSparsemixer;
  model.routing.sparsemixer_epsilon =
      static_cast<float>(config.Number("router_jitter_noise", 1e-6, 1, 0.01));
  model.routing.renormalizes = false;
  model.ffn.ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.norm_kind = NormKind::kLayer;
  model.attention.has_qkv_bias = config.Bool("attention_bias", false);
  model.attention.has_output_bias = model.attention.has_qkv_bias;
  model.attention.sliding_window = config.Integer("sliding_window", 1, kMaxPositions, 0);
  model.has_head_bias = config.Bool("lm_head_bias", false);
  model.is_moe.assign(static_cast<size_t>(model.num_layers), true);
  config.Ignore({"input_jitter_noise", "hidden_dropout"});  // of training
  return model;
}

}  // namespace

Family PhiMoe() {
  TensorNames names;
  names.router =
      "model.layers.{layer}.block_sparse_moe.gate.weight|model.layers.{layer}.mlp.router.weight";
  names.expert_gate = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight";
  names.expert_up = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight";
  names.expert_down = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight";
  return {"phimoe", ReadPhiMoe, names};
}

}  // namespace opst
