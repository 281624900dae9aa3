// ERNIE-4.5-MoE: softmax scores with a bias that only selects, shared experts, a range of MoE
// layers, rotation of neighbouring elements.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadErnie45Moe(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model, {.theta = 500000.0});
  model.attention.rope.is_interleaved = true;
  RoutingRecipe& routing = model.routing;
  routing.num_experts = config.Integer("moe_num_experts", 1, kMaxExperts);
  routing.top_k = config.Integer("moe_k", 1, routing.num_experts);
  // transformers knows both values by a second name, which would win.
  if (config.Integer("num_experts_per_tok", 1, kMaxExperts, routing.top_k) != routing.top_k) {
    config.Refuse("num_experts_per_tok", "must equal moe_k when both are there");
  }
  if (config.Integer("num_experts", 1, kMaxExperts, routing.num_experts) != routing.num_experts) {
    config.Refuse("num_experts", "must equal moe_num_experts when both are there");
  }
  routing.has_selection_bias = true;
  // The reference divides by the sum but at least by this; a sum of chosen softmax scores is always
  // far above it.
  config.Number("moe_norm_min", 0, 1e-6, 1e-12);
  routing.renormalizes = true;
  model.ffn.ffn = config.Integer("moe_intermediate_size", 1, kMaxFfn);
  model.ffn.shared_ffn = model.ffn.ffn * config.Integer("moe_num_shared_experts", 0, 1024, 2);
  model.dense_ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  const int64_t first = config.Integer("moe_layer_start_index", 0, model.num_layers, 1);
  int64_t last = config.Integer("moe_layer_end_index", -1, 4096, -1);
  if (last == -1) last = model.num_layers - 1;
  const int64_t interval = config.Integer("moe_layer_interval", 1, 4096, 1);
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    model.is_moe.push_back((layer + 1) % interval == 0 && layer >= first && layer <= last);
  }
  model.ties_embeddings = config.Bool("tie_word_embeddings", true);
  config.Require("use_bias", {"false"});
  config.Require("moe_gate", {"\"topk\""});
  config.Ignore({"num_nextn_predict_layers", "moe_capacity", "moe_use_aux_free"});  // of training
  return model;
}

}  // namespace

Family Ernie45Moe() {
  TensorNames names;
  names.selection_bias =
      "model.layers.{layer}.mlp.moe_statics.e_score_correction_bias|"
      "model.layers.{layer}.mlp.gate.moe_statics.e_score_correction_bias";
  for (const std::string_view mtp : {"model.mtp_block.*", "model.mtp_emb_norm.*",
                                     "model.mtp_hidden_norm.*", "model.mtp_linear_proj.*"}) {
    names.unused.push_back(mtp);
  }
  return {"ernie4_5_moe", ReadErnie45Moe, names};
}

}  // namespace opst
