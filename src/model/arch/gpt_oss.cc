// gpt-oss: biases everywhere, clamped SwiGLU, attention sinks, every second layer with a sliding
// window, experts stored transposed with gate and up columns in turn.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadGptOss(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model, {.theta = 150000.0, .head_dim = 64});
  ReadRouting(config, "num_experts", model);
  // Softmax over the chosen logits equals softmax over all, renormalised over the chosen.
  model.routing.renormalizes = true;
  model.routing.has_bias = true;
  model.ffn.ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.ffn.has_bias = true;
  config.Require("hidden_act", {"\"silu\""});
  model.ffn.activation = Activation::kClampedSwiglu;
  model.ffn.limits.alpha = static_cast<float>(config.Number("swiglu_alpha", 1e-3, 1e3, 1.702));
  model.ffn.limits.limit = static_cast<float>(config.Number("swiglu_limit", 1e-3, 1e6, 7.0));
  AttentionRecipe& attention = model.attention;
  attention.has_qkv_bias = config.Bool("attention_bias", true);
  attention.has_output_bias = attention.has_qkv_bias;
  attention.has_sinks = true;
  attention.sliding_window = config.Integer("sliding_window", 1, kMaxPositions);
  model.is_sliding = ReadLayerTypes(config, model.num_layers);
  const bool has_types = !model.is_sliding.empty();
  for (int64_t layer = 0; !has_types && layer < model.num_layers; ++layer) {
    model.is_sliding.push_back(layer % 2 == 0);
  }
  // transformers would assume the scaling of the published models.
  if (attention.rope.scaling == RopeRecipe::Scaling::kNone) {
    config.Refuse("rope_scaling", "must say how positions are scaled");
  }
  model.is_moe.assign(static_cast<size_t>(model.num_layers), true);
  config.Ignore({"experts_per_token", "initial_context_length"});  // other names of the same
  return model;
}

}  // namespace

Family GptOss() {
  TensorNames names;
  names.router = "model.layers.{layer}.mlp.router.weight";
  names.router_bias = "model.layers.{layer}.mlp.router.bias";
  names.fused_gate_up_bias = "model.layers.{layer}.mlp.experts.gate_up_proj_bias";
  names.fused_down_bias = "model.layers.{layer}.mlp.experts.down_proj_bias";
  return {"gpt_oss", ReadGptOss, names, FusedLayout::kInterleaved};
}

}  // namespace opst
