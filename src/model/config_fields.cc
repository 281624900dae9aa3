// Reads the groups of config.json fields that families share.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/config_fields.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace opst {

void ReadCommonFields(ConfigReader& config, ModelConfig& model, const AttentionDefaults& defaults) {
  ReadModelFields(config, model);
  ReadAttentionFields(config, model, defaults);
}

void ReadModelFields(ConfigReader& config, ModelConfig& model) {
  model.ffn.hidden = config.Integer("hidden_size", 1, 1 << 20);
  model.num_layers = config.Integer("num_hidden_layers", 1, 4096);
  model.vocab_size = config.Integer("vocab_size", 1, 1 << 24);
  model.max_positions = config.Integer("max_position_embeddings", 1, kMaxPositions, 4096);
  model.norm_eps = static_cast<float>(config.Number("rms_norm_eps", 0, 1));
  model.ties_embeddings = config.Bool("tie_word_embeddings", false);
  model.end_tokens = config.IntegerOrList("eos_token_id", 0, model.vocab_size - 1);
  model.ffn.activation = ReadActivation(config);
  model.attention.num_heads = config.Integer("num_attention_heads", 1, 65536);
  // Quantised checkpoints have other tensors; they are refused before names are compared.
  config.Require("quantization_config", {"null"});
}

void ReadAttentionFields(ConfigReader& config, ModelConfig& model,
                         const AttentionDefaults& defaults) {
  AttentionRecipe& attention = model.attention;
  attention.num_kv_heads =
      config.Integer("num_key_value_heads", 1, attention.num_heads, attention.num_heads);
  if (attention.num_heads % attention.num_kv_heads != 0) {
    config.Refuse("num_key_value_heads",
                  Concat("must divide num_attention_heads (", attention.num_heads, ")"));
  }
  const int64_t natural =
      defaults.head_dim > 0 ? defaults.head_dim : model.ffn.hidden / attention.num_heads;
  attention.head_dim = config.Integer("head_dim", 2, 65536, natural);
  if (attention.head_dim < 2 || attention.head_dim % 2 != 0) {
    config.Refuse("head_dim", "must be even, since rotary embedding turns pairs");
  }
  attention.rope = ReadRope(config, attention.head_dim, model.max_positions, defaults);
}

void ReadLatentAttention(ConfigReader& config, ModelConfig& model) {
  constexpr int64_t kMaxDim = 65536;
  AttentionRecipe& attention = model.attention;
  LatentRecipe& latent = attention.latent;
  latent.kv_rank = config.Integer("kv_lora_rank", 1, kMaxDim);
  latent.query_rank = config.Integer("q_lora_rank", 1, kMaxDim, 0);
  latent.content_dim = config.Integer("qk_nope_head_dim", 1, kMaxDim);
  latent.value_dim = config.Integer("v_head_dim", 1, kMaxDim);
  const int64_t rotated = config.Integer("qk_rope_head_dim", 2, kMaxDim);
  if (rotated % 2 != 0) {
    config.Refuse("qk_rope_head_dim", "must be even, since rotary embedding turns pairs");
  }
  attention.num_kv_heads = attention.num_heads;
  attention.head_dim = latent.content_dim + rotated;
  attention.rope = ReadRope(config, rotated, model.max_positions, {});
  attention.score_scale = static_cast<float>(ReadLatentScoreFactor(config) /
                                             std::sqrt(static_cast<double>(attention.head_dim)));
  config.Require("attention_bias", {"false"});
  // Sizes that follow from the others.
  config.Ignore({"num_key_value_heads", "head_dim", "qk_head_dim"});
}

int64_t ReadNumExperts(ConfigReader& config) {
  const int64_t local = config.Integer("num_local_experts", 1, kMaxExperts, 0);
  if (local == 0) return config.Integer("num_experts", 1, kMaxExperts);
  if (config.Integer("num_experts", 1, kMaxExperts, local) != local) {
    config.Refuse("num_experts", Concat("must equal num_local_experts (", local, ")"));
  }
  return local;
}

void ReadRouting(ConfigReader& config, std::string_view key, ModelConfig& model) {
  model.routing.num_experts =
      key == "num_experts" ? ReadNumExperts(config) : config.Integer(key, 1, kMaxExperts);
  model.routing.top_k = config.Integer("num_experts_per_tok", 1, model.routing.num_experts);
}

void ReadDeepseekExperts(ConfigReader& config, ModelConfig& model,
                         const DeepseekDefaults& defaults) {
  ReadRouting(config, "n_routed_experts", model);
  RoutingRecipe& routing = model.routing;
  routing.scale =
      static_cast<float>(config.Number("routed_scaling_factor", 0, 1e6, defaults.scale));
  routing.num_groups = config.Integer("n_group", 1, routing.num_experts, defaults.num_groups);
  routing.num_kept_groups =
      config.Integer("topk_group", 1, routing.num_groups, defaults.num_kept_groups);
  if (routing.num_experts % routing.num_groups != 0) {
    config.Refuse("n_group", Concat("must divide n_routed_experts (", routing.num_experts, ")"));
  }
  if (routing.num_kept_groups > routing.num_groups) {
    config.Refuse("topk_group", Concat("must be at most n_group (", routing.num_groups, ")"));
  }
  if (routing.num_kept_groups * (routing.num_experts / routing.num_groups) < routing.top_k) {
    config.Refuse("topk_group", "must leave num_experts_per_tok experts to choose from");
  }
  model.ffn.ffn = config.Integer("moe_intermediate_size", 1, kMaxFfn);
  model.ffn.shared_ffn =
      model.ffn.ffn * config.Integer("n_shared_experts", 0, 1024, defaults.num_shared);
  model.dense_ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  const int64_t first_moe =
      config.Integer("first_k_dense_replace", 0, model.num_layers, defaults.num_dense);
  const int64_t step = config.Integer("moe_layer_freq", 1, 1, 1);  // other steps: no such model
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    model.is_moe.push_back(layer >= first_moe && layer % step == 0);
  }
  model.num_prediction_layers = std::max(config.Integer("num_nextn_predict_layers", 0, 64, 0),
                                         config.Integer("num_mtp_layers", 0, 64, 0));
  config.Ignore({"ep_size", "seq_aux", "aux_loss_alpha", "pretraining_tp"});
}

std::vector<bool> ReadSparseLayers(ConfigReader& config, int64_t num_layers) {
  const auto dense = config.Integers("mlp_only_layers", 0, num_layers - 1);
  const int64_t step = config.Integer("decoder_sparse_step", 1, num_layers, 1);
  std::vector<bool> is_moe;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const bool is_listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    is_moe.push_back(!is_listed && (layer + 1) % step == 0);
  }
  return is_moe;
}

std::vector<bool> ReadLayerTypes(ConfigReader& config, int64_t num_layers) {
  const std::vector<std::string> types = config.Strings("layer_types");
  if (types.empty()) return {};
  if (static_cast<int64_t>(types.size()) != num_layers) {
    config.Refuse("layer_types", Concat("must name num_hidden_layers (", num_layers, ") types"));
  }
  std::vector<bool> is_sliding;
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      config.Refuse("layer_types", "must be sliding_attention or full_attention");
    }
    is_sliding.push_back(type == "sliding_attention");
  }
  return is_sliding;
}

void ReadSlidingLayers(ConfigReader& config, ModelConfig& model,
                       bool (*is_sliding)(int64_t layer, int64_t most)) {
  const std::vector<bool> types = ReadLayerTypes(config, model.num_layers);
  const int64_t most = config.Integer("max_window_layers", 0, kMaxPositions, 28);
  if (!config.Bool("use_sliding_window", false)) {
    config.Ignore({"sliding_window"});
    return;
  }
  model.attention.sliding_window = config.Integer("sliding_window", 1, kMaxPositions);
  model.is_sliding = types;
  for (int64_t layer = 0; types.empty() && layer < model.num_layers; ++layer) {
    model.is_sliding.push_back(is_sliding(layer, most));
  }
}

Activation ReadActivation(ConfigReader& config) {
  const std::string name = config.String("hidden_act", "silu");
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "gelu") return Activation::kGelu;
  if (name == "quick_gelu") return Activation::kQuickGelu;
  if (name == "relu") return Activation::kRelu;
  config.Refuse("hidden_act", "must be silu, gelu, gelu_pytorch_tanh, quick_gelu or relu");
}

}  // namespace opst
