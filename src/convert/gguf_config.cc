// Translates a GGUF file's metadata into the fields of config.json, one function per architecture.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/gguf_config.h"

#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"

namespace opst {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMany = int64_t{1} << 31;

// Asks for keys of one architecture ("llama.block_count") and remembers which were asked for.
class Keys {
 public:
  explicit Keys(const GgufCheckpoint& checkpoint)
      : checkpoint_(checkpoint),
        metadata_(checkpoint.metadata()),
        arch_(metadata_.String("general.architecture")) {
    // Of the file as a whole, the tokenizer, or derived from the tensors.
    asked_.insert(Full("vocab_size"));
  }

  const std::string& arch() const { return arch_; }
  const GgufCheckpoint& checkpoint() const { return checkpoint_; }
  const GgufMetadata& metadata() const { return metadata_; }
  bool Has(std::string_view key) { return metadata_.Has(Ask(key)); }
  int64_t Integer(std::string_view key, int64_t min = 1) {
    return metadata_.Integer(Ask(key), min, kMany);
  }
  int64_t IntegerOr(std::string_view key, int64_t fallback) {
    return metadata_.Integer(Ask(key), 0, kMany, fallback);
  }
  double Number(std::string_view key, double fallback) {
    return metadata_.Number(Ask(key), 0, 1e12, fallback);
  }
  bool Bool(std::string_view key, bool fallback) { return metadata_.Bool(Ask(key), fallback); }
  std::string_view String(std::string_view key, std::string_view fallback) {
    return metadata_.String(Ask(key), fallback);
  }
  bool HasTensor(std::string_view name) const { return checkpoint_.Find(name) != nullptr; }

  [[noreturn]] void Refuse(std::string_view key, std::string_view rule,
                           std::string_view got) const {
    ThrowIo(metadata_.where(), Concat("metadata \"", Full(key), "\" ", rule), got);
  }

  std::vector<std::string> Unasked() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : metadata_.values()) {
      const bool is_ours = key.starts_with(arch_ + ".");
      if (is_ours && !asked_.contains(std::string(key))) keys.emplace_back(key);
    }
    return keys;
  }

 private:
  std::string Full(std::string_view key) const { return Concat(arch_, ".", key); }
  std::string Ask(std::string_view key) { return *asked_.insert(Full(key)).first; }

  const GgufCheckpoint& checkpoint_;
  const GgufMetadata& metadata_;
  std::string arch_;
  std::set<std::string> asked_;
};

// Rows of the embedding; the metadata need not have it.
int64_t VocabularySize(const Keys& keys) {
  const auto* embedding = keys.checkpoint().Find("token_embd.weight");
  OPST_CHECK_IO(embedding != nullptr && embedding->tensor->shape.size() == 2,
                keys.metadata().where(), "the matrix token_embd.weight must be there",
                embedding == nullptr ? "none" : embedding->tensor->Describe());
  return embedding->tensor->shape[0];
}

void AddEndTokens(const Keys& keys, Json& config) {
  for (const std::string_view name : {"bos", "eos"}) {
    const std::string key = Concat("tokenizer.ggml.", name, "_token_id");
    if (keys.metadata().Has(key)) {
      config[Concat(name, "_token_id")] = keys.metadata().Integer(key, 0, kMany);
    }
  }
}

// The scaling parameters of Llama 3.1 and 3.2 stand in a tensor of divisors. Known parameters that
// give these divisors are looked for; others cannot be expressed.
Json Llama3Scaling(const Keys& keys, double theta) {
  const auto& tensor = *keys.checkpoint().Find("rope_freqs.weight");
  OPST_CHECK_IO(tensor.tensor->type->dtype == DType::kF32 && tensor.tensor->shape.size() == 1,
                keys.metadata().where(), "rotary divisors must be an F32 vector",
                tensor.tensor->Describe());
  const auto* divisors = reinterpret_cast<const float*>(tensor.bytes().data());
  const auto half = static_cast<size_t>(tensor.tensor->shape[0]);
  constexpr double kLow = 1, kHigh = 4, kOriginal = 8192;
  for (const double factor : {8.0, 32.0}) {
    bool is_same = true;
    for (size_t i = 0; i < half; ++i) {
      const double exponent = static_cast<double>(i) / static_cast<double>(half);
      const double wavelength = 2 * M_PI * std::pow(theta, exponent);
      double divisor = 1;
      if (wavelength > kOriginal / kLow) {
        divisor = factor;
      } else if (wavelength >= kOriginal / kHigh) {
        const double smooth = (kOriginal / wavelength - kLow) / (kHigh - kLow);
        divisor = 1 / ((1 - smooth) / factor + smooth);
      }
      is_same = is_same && std::fabs(static_cast<double>(divisors[i]) - divisor) < 1e-3 * divisor;
    }
    if (is_same) {
      return {{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", kLow},
              {"high_freq_factor", kHigh},
              {"original_max_position_embeddings", static_cast<int64_t>(kOriginal)}};
    }
  }
  ThrowIo(keys.metadata().where(), "rotary divisors must be those of Llama 3.1 or 3.2",
          tensor.tensor->Describe());
}

void AddRope(Keys& keys, Json& config) {
  const double theta = keys.Number("rope.freq_base", 10000);
  config["rope_theta"] = theta;
  const std::string type(keys.String("rope.scaling.type", "none"));
  const double factor = keys.Number("rope.scaling.factor", 0);
  const int64_t original = keys.IntegerOr("rope.scaling.original_context_length", 0);
  keys.Bool("rope.scaling.finetuned", true);
  if (keys.HasTensor("rope_freqs.weight")) {
    config["rope_scaling"] = Llama3Scaling(keys, theta);
  } else if (type == "linear") {
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", factor}};
  } else if (type == "yarn") {
    Json scaling = {{"rope_type", "yarn"}, {"factor", factor}};
    if (original > 0) scaling["original_max_position_embeddings"] = original;
    scaling["beta_fast"] = keys.Number("rope.scaling.yarn_beta_fast", 32);
    scaling["beta_slow"] = keys.Number("rope.scaling.yarn_beta_slow", 1);
    if (keys.Has("rope.scaling.yarn_log_multiplier")) {
      // 0.1 · mscale_all_dim, kept as f32; published values have three digits.
      const double all = keys.Number("rope.scaling.yarn_log_multiplier", 0);
      scaling["mscale"] = scaling["mscale_all_dim"] = std::round(all * 1e5) / 1e4;
    }
    config["rope_scaling"] = scaling;
  } else if (type != "none") {
    keys.Refuse("rope.scaling.type", "must be none, linear or yarn", type);
  }
}

Json Common(Keys& keys, std::string_view model_type) {
  Json config;
  config["model_type"] = model_type;
  config["hidden_size"] = keys.Integer("embedding_length");
  const int64_t num_layers = keys.Integer("block_count");
  // Every layer is looked for by name: a count without tensors behind it would take forever.
  const auto num_tensors = static_cast<int64_t>(keys.checkpoint().tensors().size());
  if (num_layers > num_tensors) {
    keys.Refuse("block_count", Concat("must not exceed the ", num_tensors, " tensors"),
                std::to_string(num_layers));
  }
  config["num_hidden_layers"] = num_layers;
  config["vocab_size"] = VocabularySize(keys);
  config["max_position_embeddings"] = keys.Integer("context_length");
  config["rms_norm_eps"] = keys.Number("attention.layer_norm_rms_epsilon", 1e-6);
  config["num_attention_heads"] = keys.Integer("attention.head_count");
  config["num_key_value_heads"] =
      keys.IntegerOr("attention.head_count_kv", config["num_attention_heads"].get<int64_t>());
  config["tie_word_embeddings"] = !keys.HasTensor("output.weight");
  config["hidden_act"] = "silu";
  if (keys.Has("feed_forward_length")) {
    config["intermediate_size"] = keys.Integer("feed_forward_length", 0);
  }
  AddEndTokens(keys, config);
  AddRope(keys, config);
  return config;
}

void AddHeadDim(Keys& keys, Json& config) {
  const int64_t width = keys.IntegerOr("rope.dimension_count", 0);
  const int64_t head = keys.IntegerOr("attention.key_length", width);
  if (keys.IntegerOr("attention.value_length", head) != head) {
    keys.Refuse("attention.value_length", "must equal attention.key_length", "another number");
  }
  if (width != 0 && width != head) {
    keys.Refuse("rope.dimension_count", "must be the whole head", std::to_string(width));
  }
  if (head != 0) config["head_dim"] = head;
}

void AddExperts(Keys& keys, Json& config, std::string_view count_name) {
  config[std::string(count_name)] = keys.Integer("expert_count");
  config["num_experts_per_tok"] = keys.Integer("expert_used_count");
}

// Layers that have no router.
Json DenseLayers(const Keys& keys, int64_t num_layers) {
  Json layers = Json::array();
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    if (!keys.HasTensor(Concat("blk.", layer, ".ffn_gate_inp.weight"))) layers.push_back(layer);
  }
  return layers;
}

Json Llama(Keys& keys) {
  const bool is_moe = keys.IntegerOr("expert_count", 0) > 0;
  Json config = Common(keys, is_moe ? "mixtral" : "llama");
  AddHeadDim(keys, config);
  if (is_moe) {
    AddExperts(keys, config, "num_local_experts");
  } else {
    keys.IntegerOr("expert_used_count", 0);
    config["attention_bias"] = keys.HasTensor("blk.0.attn_q.bias");
  }
  return config;
}

Json DenseQwen(Keys& keys, std::string_view model_type) {
  Json config = Common(keys, model_type);
  AddHeadDim(keys, config);
  return config;
}

Json QwenMoe(Keys& keys, std::string_view model_type, bool renormalises) {
  Json config = Common(keys, model_type);
  AddHeadDim(keys, config);
  AddExperts(keys, config, "num_experts");
  config["norm_topk_prob"] = keys.Bool("expert_weights_norm", renormalises);
  config["mlp_only_layers"] = DenseLayers(keys, config["num_hidden_layers"].get<int64_t>());
  config["decoder_sparse_step"] = 1;
  config["moe_intermediate_size"] = keys.Integer("expert_feed_forward_length");
  if (!config.contains("intermediate_size")) config["intermediate_size"] = 1;
  if (keys.Has("expert_shared_feed_forward_length")) {
    config["shared_expert_intermediate_size"] = keys.Integer("expert_shared_feed_forward_length");
  }
  return config;
}

Json Olmoe(Keys& keys) {
  Json config = Common(keys, "olmoe");
  AddHeadDim(keys, config);
  AddExperts(keys, config, "num_experts");
  config["norm_topk_prob"] = keys.Bool("expert_weights_norm", false);
  if (keys.Has("expert_feed_forward_length")) {
    config["intermediate_size"] = keys.Integer("expert_feed_forward_length");
  }
  if (keys.Has("attention.clamp_kqv")) config["clip_qkv"] = keys.Number("attention.clamp_kqv", 0);
  return config;
}

Json Deepseek(Keys& keys) {
  const bool is_v3 = keys.IntegerOr("expert_gating_func", 1) == 2;
  Json config = Common(keys, is_v3 ? "deepseek_v3" : "deepseek_v2");
  config["num_key_value_heads"] = config["num_attention_heads"];
  const int64_t rope = keys.Integer("rope.dimension_count");
  // Files with keys and values apart say the heads' sizes under names of their own.
  const bool is_split = keys.Has("attention.key_length_mla");
  const int64_t key = keys.Integer("attention.key_length");
  const int64_t value = keys.Integer("attention.value_length");
  const int64_t head = is_split ? keys.Integer("attention.key_length_mla") : key;
  if (head <= rope)
    keys.Refuse("rope.dimension_count", "must be below the head", std::to_string(rope));
  config["q_lora_rank"] = nullptr;
  if (keys.Has("attention.q_lora_rank")) {
    config["q_lora_rank"] = keys.Integer("attention.q_lora_rank");
  }
  config["kv_lora_rank"] = keys.Integer("attention.kv_lora_rank");
  config["qk_rope_head_dim"] = rope;
  config["qk_nope_head_dim"] = head - rope;
  config["v_head_dim"] = is_split ? keys.Integer("attention.value_length_mla") : value;
  AddExperts(keys, config, "n_routed_experts");
  config["n_shared_experts"] = keys.IntegerOr("expert_shared_count", 0);
  config["moe_intermediate_size"] = keys.Integer("expert_feed_forward_length");
  config["first_k_dense_replace"] = keys.IntegerOr("leading_dense_block_count", 0);
  config["routed_scaling_factor"] = keys.Number("expert_weights_scale", 1);
  config["norm_topk_prob"] = keys.Bool("expert_weights_norm", false);
  const int64_t groups =
      is_v3 ? keys.Integer("expert_group_count") : keys.IntegerOr("expert_group_count", 1);
  config["n_group"] = groups;
  config["topk_group"] = is_v3 ? keys.Integer("expert_group_used_count")
                               : keys.IntegerOr("expert_group_used_count", 1);
  if (!is_v3) config["topk_method"] = groups > 1 ? "group_limited_greedy" : "greedy";
  return config;
}

Json GptOss(Keys& keys) {
  Json config = Common(keys, "gpt_oss");
  AddHeadDim(keys, config);
  AddExperts(keys, config, "num_local_experts");
  config["intermediate_size"] = keys.Integer("expert_feed_forward_length");
  config["sliding_window"] = keys.Integer("attention.sliding_window");
  if (config.contains("rope_scaling")) config["rope_scaling"]["truncate"] = false;
  return config;
}

}  // namespace

GgufConfig ReadGgufConfig(const GgufCheckpoint& checkpoint) {
  Keys keys(checkpoint);
  const std::string& arch = keys.arch();
  GgufConfig result;
  if (arch == "llama") {
    result.config = Llama(keys);
  } else if (arch == "qwen2" || arch == "qwen3") {
    result.config = DenseQwen(keys, arch);
  } else if (arch == "qwen2moe") {
    result.config = QwenMoe(keys, "qwen2_moe", false);
  } else if (arch == "qwen3moe") {
    result.config = QwenMoe(keys, "qwen3_moe", true);
  } else if (arch == "olmoe") {
    result.config = Olmoe(keys);
  } else if (arch == "deepseek2") {
    result.config = Deepseek(keys);
  } else if (arch == "gpt-oss") {
    result.config = GptOss(keys);
  } else {
    ThrowIo(checkpoint.path(),
            "general.architecture must be llama, qwen2, qwen3, qwen2moe, qwen3moe, olmoe, "
            "deepseek2 or gpt-oss",
            arch);
  }
  result.unknown_keys = keys.Unasked();
  return result;
}

}  // namespace opst
