// Prints a recipe as JSON: for `opst inspect`, and for the packed file, where it is compared.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/model_config.h"

#include <nlohmann/json.hpp>

namespace opst {
namespace {

using Json = nlohmann::ordered_json;

Json RoutingJson(const RoutingRecipe& routing) {
  return {
      {"num_experts", routing.num_experts},
      {"top_k", routing.top_k},
      {"score_function", routing.score_function == ScoreFunction::kSoftmax ? "softmax" : "sigmoid"},
      {"has_selection_bias", routing.has_selection_bias},
      {"num_groups", routing.num_groups},
      {"num_kept_groups", routing.num_kept_groups},
      {"group_score", routing.group_score == GroupScore::kMax ? "max" : "sum_of_top_two"},
      {"renormalizes", routing.renormalizes},
      {"scale", routing.scale}};
}

std::string_view ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kRelu:
      return "relu";
  }
  return "?";
}

Json FfnJson(const FfnRecipe& ffn) {
  return {{"hidden", ffn.hidden},
          {"ffn", ffn.ffn},
          {"activation", ActivationName(ffn.activation)},
          {"shared_ffn", ffn.shared_ffn},
          {"has_shared_gate", ffn.has_shared_gate}};
}

std::string_view QkNormName(AttentionRecipe::QkNorm norm) {
  switch (norm) {
    case AttentionRecipe::QkNorm::kNone:
      return "none";
    case AttentionRecipe::QkNorm::kPerHead:
      return "per_head";
    case AttentionRecipe::QkNorm::kAcrossHeads:
      return "across_heads";
  }
  return "?";
}

Json AttentionJson(const AttentionRecipe& attention) {
  return {{"num_heads", attention.num_heads},
          {"num_kv_heads", attention.num_kv_heads},
          {"head_dim", attention.head_dim},
          {"rope_theta", attention.rope_theta},
          {"qk_norm", QkNormName(attention.qk_norm)},
          {"qkv_clip", attention.qkv_clip},
          {"sliding_window", attention.sliding_window}};
}

}  // namespace

std::string ModelConfig::ToJson() const {
  Json dense_layers = Json::array();
  for (size_t layer = 0; layer < is_moe.size(); ++layer) {
    if (!is_moe[layer]) dense_layers.push_back(layer);
  }
  const Json json = {{"family", family},
                     {"num_layers", num_layers},
                     {"vocab_size", vocab_size},
                     {"max_positions", max_positions},
                     {"norm_eps", norm_eps},
                     {"ties_embeddings", ties_embeddings},
                     {"attention", AttentionJson(attention)},
                     {"routing", RoutingJson(routing)},
                     {"ffn", FfnJson(ffn)},
                     {"dense_ffn", dense_ffn},
                     {"dense_layers", dense_layers},
                     {"end_tokens", end_tokens}};
  return json.dump();
}

}  // namespace opst
