// Prints a recipe as JSON: for `opst inspect`, and for the packed file, where it is compared.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/model_config.h"

#include <nlohmann/json.hpp>

namespace opst {
namespace {

using Json = nlohmann::ordered_json;

// Adds a field unless it has its default: how fields join without changing older recipes' text.
template <typename T>
void AddIfSet(Json& json, const char* key, const T& value, const T& unset) {
  if (value != unset) json[key] = value;
}

std::string_view ScoreName(ScoreFunction function) {
  switch (function) {
    case ScoreFunction::kSoftmax:
      return "softmax";
    case ScoreFunction::kSigmoid:
      return "sigmoid";
    case ScoreFunction::kSparsemixer:
      return "sparsemixer";
    case ScoreFunction::kSoftmaxOfChosen:
      return "softmax_of_chosen";
  }
  return "?";
}

Json SelectionJson(const SelectionOptions& selection) {
  switch (selection.rule) {
    case SelectionRule::kTopK:
      break;
    case SelectionRule::kThreshold:
      return {{"rule", "threshold"}, {"threshold", selection.threshold}};
    case SelectionRule::kTopP:
      return {{"rule", "top_p"}, {"top_p", selection.top_p}};
    case SelectionRule::kEntropy: {
      Json steps = Json::array();
      for (const EntropyThreshold& step : selection.entropy_thresholds) {
        steps.push_back(Json::array({step.entropy, step.num_experts}));
      }
      return {{"rule", "entropy"}, {"entropy_thresholds", steps}};
    }
  }
  return {{"rule", "top_k"}};
}

Json RoutingJson(const RoutingRecipe& routing) {
  Json json = {{"num_experts", routing.num_experts},
               {"top_k", routing.top_k},
               {"score_function", ScoreName(routing.score_function)},
               {"has_selection_bias", routing.has_selection_bias},
               {"num_groups", routing.num_groups},
               {"num_kept_groups", routing.num_kept_groups},
               {"group_score", routing.group_score == GroupScore::kMax ? "max" : "sum_of_top_two"},
               {"renormalizes", routing.renormalizes},
               {"scale", routing.scale}};
  if (routing.score_function == ScoreFunction::kSparsemixer) {
    json["sparsemixer_epsilon"] = routing.sparsemixer_epsilon;
  }
  AddIfSet(json, "has_bias", routing.has_bias, false);
  AddIfSet<int64_t>(json, "hidden_dim", routing.hidden_dim, 0);
  if (routing.selection.rule != SelectionRule::kTopK) {
    json["selection"] = SelectionJson(routing.selection);
  }
  AddIfSet(json, "load_balance_ratio", routing.load_balance_ratio, 0.0f);
  return json;
}

std::string_view ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kRelu:
      return "relu";
    case Activation::kClampedSwiglu:
      return "clamped_swiglu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kQuickGelu:
      return "quick_gelu";
  }
  return "?";
}

Json FfnJson(const FfnRecipe& ffn) {
  Json json = {{"hidden", ffn.hidden},
               {"ffn", ffn.ffn},
               {"activation", ActivationName(ffn.activation)},
               {"shared_ffn", ffn.shared_ffn},
               {"has_shared_gate", ffn.has_shared_gate}};
  if (ffn.activation == Activation::kClampedSwiglu) {
    json["alpha"] = ffn.limits.alpha;
    json["limit"] = ffn.limits.limit;
  }
  AddIfSet(json, "has_bias", ffn.has_bias, false);
  return json;
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

Json ScalingJson(const RopeRecipe& rope) {
  using Scaling = RopeRecipe::Scaling;
  const Json factor = {{"factor", rope.factor}, {"original_positions", rope.original_positions}};
  Json json;
  switch (rope.scaling) {
    case Scaling::kNone:
      return {{"kind", "none"}};
    case Scaling::kLinear:
      return {{"kind", "linear"}, {"factor", rope.factor}};
    case Scaling::kDynamic:
      json = {{"kind", "dynamic"}};
      break;
    case Scaling::kYarn:
      json = {{"kind", "yarn"},
              {"beta_fast", rope.beta_fast},
              {"beta_slow", rope.beta_slow},
              {"truncates", rope.truncates}};
      break;
    case Scaling::kLlama3:
      json = {{"kind", "llama3"},
              {"low_frequency_factor", rope.low_frequency_factor},
              {"high_frequency_factor", rope.high_frequency_factor}};
      break;
    case Scaling::kLongRope:
      json = {{"kind", "longrope"},
              {"short_factors", rope.short_factors},
              {"long_factors", rope.long_factors},
              {"long_amplitude", rope.long_amplitude}};
      break;
  }
  json.update(factor);
  return json;
}

Json LatentJson(const LatentRecipe& latent) {
  return {{"kv_rank", latent.kv_rank},
          {"query_rank", latent.query_rank},
          {"content_dim", latent.content_dim},
          {"value_dim", latent.value_dim},
          {"norm_eps", latent.norm_eps}};
}

Json AttentionJson(const AttentionRecipe& attention) {
  const RopeRecipe& rope = attention.rope;
  Json json = {{"num_heads", attention.num_heads},
               {"num_kv_heads", attention.num_kv_heads},
               {"head_dim", attention.head_dim},
               {"rope_theta", rope.theta},
               {"qk_norm", QkNormName(attention.qk_norm)},
               {"qkv_clip", attention.qkv_clip},
               {"sliding_window", attention.sliding_window}};
  AddIfSet(json, "rope_dim", rope.dim, attention.head_dim);
  AddIfSet(json, "rope_is_interleaved", rope.is_interleaved, false);
  if (rope.scaling != RopeRecipe::Scaling::kNone) json["rope_scaling"] = ScalingJson(rope);
  AddIfSet(json, "rope_amplitude", rope.amplitude, 1.0f);
  AddIfSet(json, "score_scale", attention.score_scale, 0.0f);
  AddIfSet(json, "has_qkv_bias", attention.has_qkv_bias, false);
  AddIfSet(json, "has_output_bias", attention.has_output_bias, false);
  AddIfSet(json, "has_sinks", attention.has_sinks, false);
  if (attention.is_latent()) json["latent"] = LatentJson(attention.latent);
  return json;
}

// Numbers of the layers that a flag is set for.
Json LayersWith(const std::vector<bool>& flags, bool value) {
  Json layers = Json::array();
  for (size_t layer = 0; layer < flags.size(); ++layer) {
    if (flags[layer] == value) layers.push_back(layer);
  }
  return layers;
}

}  // namespace

int64_t ModelConfig::window(int64_t layer) const {
  const bool slides = is_sliding.empty() || is_sliding[static_cast<size_t>(layer)];
  return slides ? attention.sliding_window : 0;
}

RoutingRecipe ModelConfig::routing_of(int64_t layer) const {
  RoutingRecipe recipe = routing;
  if (!routing_scales.empty()) recipe.scale = routing_scales[static_cast<size_t>(layer)];
  return recipe;
}

std::string ModelConfig::ToJson() const {
  Json json = {{"family", family},
               {"num_layers", num_layers},
               {"vocab_size", vocab_size},
               {"max_positions", max_positions},
               {"norm_eps", norm_eps},
               {"ties_embeddings", ties_embeddings},
               {"attention", AttentionJson(attention)},
               {"routing", RoutingJson(routing)},
               {"ffn", FfnJson(ffn)},
               {"dense_ffn", dense_ffn},
               {"dense_layers", LayersWith(is_moe, false)},
               {"end_tokens", end_tokens}};
  if (norm_kind == NormKind::kLayer) json["norm_kind"] = "layer";
  AddIfSet(json, "has_head_bias", has_head_bias, false);
  AddIfSet(json, "embedding_scale", embedding_scale, 1.0f);
  AddIfSet(json, "residual_scale", residual_scale, 1.0f);
  AddIfSet(json, "logit_divisor", logit_divisor, 1.0f);
  if (!is_sliding.empty()) json["sliding_layers"] = LayersWith(is_sliding, true);
  AddIfSet(json, "routing_scales", routing_scales, {});
  return json.dump();
}

}  // namespace opst
