// The list of families, and what they share in reading config.json.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/check.h"
#include "model/arch/families.h"
#include "model/family.h"

namespace opst {
namespace {

// Fields that say nothing about inference, in any family.
void IgnoreTrainingFields(ConfigReader& config) {
  config.Ignore({"_name_or_path", "architectures", "attention_dropout", "bos_token_id", "dtype",
                 "initializer_range", "output_router_logits", "pad_token_id",
                 "router_aux_loss_coef", "torch_dtype", "transformers_version", "use_cache"});
}

}  // namespace

std::span<const Family> Families() {
  static const std::array families{Mixtral(), Olmoe(), Qwen3Moe()};
  return families;
}

const Family& FindFamily(std::string_view model_type, const std::string& file) {
  std::string known;
  for (const Family& family : Families()) {
    if (family.model_type == model_type) return family;
    known += Concat(known.empty() ? "" : ", ", family.model_type);
  }
  ThrowIo(file, Concat("model_type must be one of ", known), model_type);
}

ModelConfig ReadModelConfig(std::string_view json, const std::string& file,
                            std::vector<std::string>* unknown_fields) {
  ConfigReader config(json, file);
  const Family& family = FindFamily(config.String("model_type"), file);
  ModelConfig model = family.read_config(config);
  model.family = family.model_type;
  IgnoreTrainingFields(config);
  if (unknown_fields != nullptr) *unknown_fields = config.UnaskedKeys();
  return model;
}

void ReadCommonFields(ConfigReader& config, ModelConfig& model) {
  model.ffn.hidden = config.Integer("hidden_size", 1, 1 << 20);
  model.num_layers = config.Integer("num_hidden_layers", 1, 4096);
  model.vocab_size = config.Integer("vocab_size", 1, 1 << 24);
  model.max_positions = config.Integer("max_position_embeddings", 1, 1LL << 31, 4096);
  model.norm_eps = static_cast<float>(config.Number("rms_norm_eps", 0, 1, 1e-6));
  model.ties_embeddings = config.Bool("tie_word_embeddings", false);
  model.end_tokens = config.IntegerOrList("eos_token_id", 0, model.vocab_size - 1);
  model.ffn.activation = ReadActivation(config);
  AttentionRecipe& attention = model.attention;
  attention.num_heads = config.Integer("num_attention_heads", 1, 65536);
  attention.num_kv_heads =
      config.Integer("num_key_value_heads", 1, attention.num_heads, attention.num_heads);
  if (attention.num_heads % attention.num_kv_heads != 0) {
    config.Refuse("num_key_value_heads",
                  Concat("must divide num_attention_heads (", attention.num_heads, ")"));
  }
  attention.head_dim = config.Integer("head_dim", 2, 65536, model.ffn.hidden / attention.num_heads);
  if (attention.head_dim < 2 || attention.head_dim % 2 != 0) {
    config.Refuse("head_dim", "must be even, since rotary embedding turns pairs");
  }
  attention.rope_theta = ReadRopeTheta(config);
  // Quantised checkpoints have other tensors; they are refused before names are compared.
  config.Require("quantization_config", {"null"});
}

int64_t ReadNumExperts(ConfigReader& config) {
  constexpr int64_t kMax = 65536;
  const int64_t local = config.Integer("num_local_experts", 1, kMax, 0);
  if (local == 0) return config.Integer("num_experts", 1, kMax);
  if (config.Integer("num_experts", 1, kMax, local) != local) {
    config.Refuse("num_experts", Concat("must equal num_local_experts (", local, ")"));
  }
  return local;
}

float ReadRopeTheta(ConfigReader& config) {
  constexpr double kMin = 1.0;
  constexpr double kMax = 1e12;
  config.Require("rope_scaling", {"null"});
  if (auto parameters = config.Object("rope_parameters")) {
    parameters->Require("rope_type", {"\"default\""});
    return static_cast<float>(parameters->Number("rope_theta", kMin, kMax));
  }
  return static_cast<float>(config.Number("rope_theta", kMin, kMax, 10000.0));
}

Activation ReadActivation(ConfigReader& config) {
  const std::string name = config.String("hidden_act", "silu");
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  config.Refuse("hidden_act", "must be silu, gelu_pytorch_tanh or relu");
}

std::string TensorName(std::string_view pattern, int64_t layer, int64_t expert) {
  std::string name(pattern);
  const auto replace = [&](std::string_view mark, int64_t number) {
    const size_t at = name.find(mark);
    if (at != std::string::npos) name.replace(at, mark.size(), std::to_string(number));
  };
  replace("{layer}", layer);
  replace("{expert}", expert);
  return name;
}

bool MatchesPattern(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  const std::string_view prefix = pattern.substr(0, star);
  const std::string_view suffix = pattern.substr(star + 1);
  return name.size() >= prefix.size() + suffix.size() && name.starts_with(prefix) &&
         name.ends_with(suffix);
}

}  // namespace opst
