// LLaMA-MoE v1: Llama whose feed-forward layers were split into experts; the router may have a
// hidden tanh layer, and every layer its own scale. Version 2 is read by mixtral.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

// size_experts lists the width of every expert of every layer; without it all are equal.
int64_t ReadExpertWidth(ConfigReader& config, int64_t num_layers, int64_t num_experts) {
  const int64_t total = config.Integer("intermediate_size", 1, kMaxFfn);
  if (total % num_experts != 0) {
    config.Refuse("intermediate_size", "must be a multiple of num_experts");
  }
  const int64_t width = total / num_experts;
  const auto sizes = config.IntegerTable("size_experts", 1, kMaxFfn);
  bool is_even = sizes.empty() || static_cast<int64_t>(sizes.size()) == num_layers;
  for (const std::vector<int64_t>& layer : sizes) {
    is_even = is_even && layer == std::vector<int64_t>(static_cast<size_t>(num_experts), width);
  }
  if (!is_even) {
    config.Refuse("size_experts", "must give all experts the same width (others do not run yet)");
  }
  return width;
}

ModelConfig ReadLlamaMoe(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model);
  RoutingRecipe& routing = model.routing;
  routing.num_experts = config.Integer("num_experts", 1, kMaxExperts);
  routing.top_k = config.Integer("num_selects", 1, routing.num_experts);
  routing.renormalizes = true;  // softmax over the chosen logits
  const std::string network = config.String("gate_network", "mlp");
  if (network == "mlp") {
    routing.hidden_dim = routing.num_experts;
  } else if (network != "linear") {
    config.Refuse("gate_network", "must be mlp or linear");
  }
  const auto scales = config.NumberOrList("score_scale_factor", 0, 1e6);
  if (scales.size() == 1) {
    routing.scale = static_cast<float>(scales.front());
  } else if (!scales.empty()) {
    if (static_cast<int64_t>(scales.size()) != model.num_layers) {
      config.Refuse("score_scale_factor", "must be one number, or one per layer");
    }
    model.routing_scales.assign(scales.begin(), scales.end());
  }
  model.ffn.ffn = ReadExpertWidth(config, model.num_layers, routing.num_experts);
  model.is_moe.assign(static_cast<size_t>(model.num_layers), true);
  config.Require("attention_bias", {"false"});
  config.Require("gate_type", {"\"TopKBalancedNoisyGate\""});
  config.Require("gate_use_softmax", {"true"});
  config.Require("calculator_type", {"\"UniversalCalculator\""});
  config.Require("multiply_gate_scores", {"true"});
  config.Require("add_weight_norm", {"false"});
  config.Ignore({"gate_add_noise", "gate_balance_loss_weight", "gate_noise_epsilon",
                 "gate_use_balance", "pretraining_tp"});  // of training
  // Of another calculator.
  config.Ignore({"capacity_factor", "drop_tokens", "dropped_padding"});
  return model;
}

}  // namespace

Family LlamaMoe() {
  TensorNames names;
  names.router =
      "model.layers.{layer}.mlp.gate.gate_network.2.weight|"
      "model.layers.{layer}.mlp.gate.gate_network.weight";
  names.router_hidden = "model.layers.{layer}.mlp.gate.gate_network.0.weight";
  names.expert_gate = "model.layers.{layer}.mlp.calculator.experts.weight_gate.{expert}";
  names.expert_up = "model.layers.{layer}.mlp.calculator.experts.weight_up.{expert}";
  names.expert_down = "model.layers.{layer}.mlp.calculator.experts.weight_down.{expert}";
  names.unused.push_back("model.layers.*.mlp.gate.weight_noise.weight");
  return {"llama_moe", ReadLlamaMoe, names};
}

}  // namespace opst
