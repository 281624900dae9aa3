// Qwen2-MoE (Qwen1.5-MoE too): biases on q, k and v, and a shared expert behind a sigmoid gate.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

// transformers lets every second one of the first max_window_layers layers slide.
bool IsSliding(int64_t layer, int64_t most) { return layer % 2 == 0 && layer < most; }

ModelConfig ReadQwen2Moe(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model);
  ReadRouting(config, "num_experts", model);
  model.routing.renormalizes = config.Bool("norm_topk_prob", false);
  model.ffn.ffn = config.Integer("moe_intermediate_size", 1, kMaxFfn);
  model.ffn.shared_ffn = config.Integer("shared_expert_intermediate_size", 1, kMaxFfn);
  model.ffn.has_shared_gate = true;
  model.dense_ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.is_moe = ReadSparseLayers(config, model.num_layers);
  model.attention.has_qkv_bias = config.Bool("qkv_bias", true);
  ReadSlidingLayers(config, model, IsSliding);
  return model;
}

}  // namespace

Family Qwen2Moe() {
  TensorNames names;
  names.shared_gate = "model.layers.{layer}.mlp.shared_expert.gate_proj.weight";
  names.shared_up = "model.layers.{layer}.mlp.shared_expert.up_proj.weight";
  names.shared_down = "model.layers.{layer}.mlp.shared_expert.down_proj.weight";
  names.shared_expert_gate = "model.layers.{layer}.mlp.shared_expert_gate.weight";
  return {"qwen2_moe", ReadQwen2Moe, names};
}

}  // namespace opst
