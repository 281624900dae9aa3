// The tables of GGUF tensor names.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/gguf_names.h"

#include <optional>
#include <utility>

#include "base/strings.h"

namespace opst {
namespace {

using enum GgufChange;

void Append(std::vector<GgufRule>& rules, const std::vector<GgufRule>& more) {
  rules.insert(rules.end(), more.begin(), more.end());
}

const std::vector<GgufRule>& CommonRules() {
  static const std::vector<GgufRule> kRules = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"},
      {"output.weight", "lm_head.weight"},
      {"rope_freqs.weight", "", kRopeFactors},
      {"blk.{layer}.attn_norm.weight", "model.layers.{layer}.input_layernorm.weight"},
      {"blk.{layer}.ffn_norm.weight", "model.layers.{layer}.post_attention_layernorm.weight"},
      {"blk.{layer}.attn_q.weight", "model.layers.{layer}.self_attn.q_proj.weight"},
      {"blk.{layer}.attn_k.weight", "model.layers.{layer}.self_attn.k_proj.weight"},
      {"blk.{layer}.attn_v.weight", "model.layers.{layer}.self_attn.v_proj.weight"},
      {"blk.{layer}.attn_output.weight", "model.layers.{layer}.self_attn.o_proj.weight"},
      {"blk.{layer}.attn_q.bias", "model.layers.{layer}.self_attn.q_proj.bias"},
      {"blk.{layer}.attn_k.bias", "model.layers.{layer}.self_attn.k_proj.bias"},
      {"blk.{layer}.attn_v.bias", "model.layers.{layer}.self_attn.v_proj.bias"},
      {"blk.{layer}.attn_output.bias", "model.layers.{layer}.self_attn.o_proj.bias"},
      {"blk.{layer}.attn_q_norm.weight", "model.layers.{layer}.self_attn.q_norm.weight"},
      {"blk.{layer}.attn_k_norm.weight", "model.layers.{layer}.self_attn.k_norm.weight"},
      {"blk.{layer}.ffn_gate.weight", "model.layers.{layer}.mlp.gate_proj.weight"},
      {"blk.{layer}.ffn_up.weight", "model.layers.{layer}.mlp.up_proj.weight"},
      {"blk.{layer}.ffn_down.weight", "model.layers.{layer}.mlp.down_proj.weight"},
      {"blk.{layer}.ffn_gate_inp.weight", "model.layers.{layer}.mlp.gate.weight"},
      {"blk.{layer}.ffn_gate_exps.weight",
       "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight", kPerExpert},
      {"blk.{layer}.ffn_up_exps.weight", "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight",
       kPerExpert},
      {"blk.{layer}.ffn_down_exps.weight",
       "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight", kPerExpert},
  };
  return kRules;
}

// Llama and Mixtral share an architecture whose writer reorders queries and keys.
const std::vector<GgufRule> kLlamaRules = {
    {"blk.{layer}.attn_q.weight", "model.layers.{layer}.self_attn.q_proj.weight", kQueryRows},
    {"blk.{layer}.attn_k.weight", "model.layers.{layer}.self_attn.k_proj.weight", kKeyRows},
    {"blk.{layer}.attn_q.bias", "model.layers.{layer}.self_attn.q_proj.bias", kQueryRows},
    {"blk.{layer}.attn_k.bias", "model.layers.{layer}.self_attn.k_proj.bias", kKeyRows},
    {"blk.{layer}.attn_rot_embd.weight", "", kIgnored},
};

const std::vector<GgufRule> kMixtralRules = {
    {"blk.{layer}.ffn_gate_inp.weight", "model.layers.{layer}.block_sparse_moe.gate.weight"},
    {"blk.{layer}.ffn_gate_exps.weight",
     "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight", kPerExpert},
    {"blk.{layer}.ffn_up_exps.weight",
     "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight", kPerExpert},
    {"blk.{layer}.ffn_down_exps.weight",
     "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight", kPerExpert},
    // Files from before experts were joined.
    {"blk.{layer}.ffn_gate.{expert}.weight",
     "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight"},
    {"blk.{layer}.ffn_up.{expert}.weight",
     "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight"},
    {"blk.{layer}.ffn_down.{expert}.weight",
     "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight"},
};

const std::vector<GgufRule> kQwen2MoeRules = {
    {"blk.{layer}.ffn_gate_inp_shexp.weight", "model.layers.{layer}.mlp.shared_expert_gate.weight",
     kMatrixOfRow},
    {"blk.{layer}.ffn_gate_shexp.weight",
     "model.layers.{layer}.mlp.shared_expert.gate_proj.weight"},
    {"blk.{layer}.ffn_up_shexp.weight", "model.layers.{layer}.mlp.shared_expert.up_proj.weight"},
    {"blk.{layer}.ffn_down_shexp.weight",
     "model.layers.{layer}.mlp.shared_expert.down_proj.weight"},
};

const std::vector<GgufRule> kDeepseekRules = {
    {"blk.{layer}.attn_q_a.weight", "model.layers.{layer}.self_attn.q_a_proj.weight"},
    {"blk.{layer}.attn_q_a_norm.weight", "model.layers.{layer}.self_attn.q_a_layernorm.weight"},
    {"blk.{layer}.attn_q_b.weight", "model.layers.{layer}.self_attn.q_b_proj.weight"},
    {"blk.{layer}.attn_kv_a_mqa.weight",
     "model.layers.{layer}.self_attn.kv_a_proj_with_mqa.weight"},
    {"blk.{layer}.attn_kv_a_norm.weight", "model.layers.{layer}.self_attn.kv_a_layernorm.weight"},
    {"blk.{layer}.attn_kv_b.weight", "model.layers.{layer}.self_attn.kv_b_proj.weight"},
    {"blk.{layer}.attn_k_b.weight", "model.layers.{layer}.self_attn.kv_b_proj.weight", kKeyOfKvUp,
     "blk.{layer}.attn_v_b.weight"},
    {"blk.{layer}.ffn_gate_shexp.weight",
     "model.layers.{layer}.mlp.shared_experts.gate_proj.weight"},
    {"blk.{layer}.ffn_up_shexp.weight", "model.layers.{layer}.mlp.shared_experts.up_proj.weight"},
    {"blk.{layer}.ffn_down_shexp.weight",
     "model.layers.{layer}.mlp.shared_experts.down_proj.weight"},
    {"blk.{layer}.exp_probs_b.bias", "model.layers.{layer}.mlp.gate.e_score_correction_bias"},
};

const std::vector<GgufRule> kGptOssRules = {
    {"blk.{layer}.attn_sinks.weight", "model.layers.{layer}.self_attn.sinks"},
    {"blk.{layer}.post_attention_norm.weight",
     "model.layers.{layer}.post_attention_layernorm.weight"},
    {"blk.{layer}.ffn_gate_inp.weight", "model.layers.{layer}.mlp.router.weight"},
    {"blk.{layer}.ffn_gate_inp.bias", "model.layers.{layer}.mlp.router.bias"},
    {"blk.{layer}.ffn_gate_exps.weight", "model.layers.{layer}.mlp.experts.gate_up_proj",
     kGateOfPairs, "blk.{layer}.ffn_up_exps.weight"},
    {"blk.{layer}.ffn_gate_exps.bias", "model.layers.{layer}.mlp.experts.gate_up_proj_bias",
     kBiasOfPairs, "blk.{layer}.ffn_up_exps.bias"},
    {"blk.{layer}.ffn_down_exps.weight", "model.layers.{layer}.mlp.experts.down_proj", kTranspose},
    {"blk.{layer}.ffn_down_exps.bias", "model.layers.{layer}.mlp.experts.down_proj_bias"},
};

// The number at the front of `text`, which it shortens; none when there is no plain one.
std::optional<int64_t> TakeNumber(std::string_view& text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, end);
  if (digits.empty() || digits.size() > 6 || (digits.size() > 1 && digits[0] == '0')) {
    return std::nullopt;
  }
  text.remove_prefix(end);
  return ParseInt(digits);
}

bool Matches(std::string_view pattern, std::string_view name, GgufMatch* match) {
  while (!pattern.empty()) {
    const size_t mark = std::min(pattern.find('{'), pattern.size());
    if (!name.starts_with(pattern.substr(0, mark))) return false;
    name.remove_prefix(mark);
    pattern.remove_prefix(mark);
    if (pattern.empty()) break;
    const size_t close = pattern.find('}');
    const std::optional<int64_t> number = TakeNumber(name);
    if (!number) return false;
    (pattern.substr(0, close) == "{layer" ? match->layer : match->expert) = *number;
    pattern.remove_prefix(close + 1);
  }
  return name.empty();
}

}  // namespace

std::vector<GgufRule> GgufRules(std::string_view model_type) {
  std::vector<GgufRule> rules;
  if (model_type == "llama" || model_type == "mixtral") Append(rules, kLlamaRules);
  if (model_type == "mixtral") Append(rules, kMixtralRules);
  if (model_type == "qwen2_moe") Append(rules, kQwen2MoeRules);
  if (model_type == "deepseek_v2" || model_type == "deepseek_v3") Append(rules, kDeepseekRules);
  if (model_type == "gpt_oss") Append(rules, kGptOssRules);
  Append(rules, CommonRules());
  return rules;
}

GgufMatch MatchGgufName(const std::vector<GgufRule>& rules, std::string_view name) {
  for (const GgufRule& rule : rules) {
    GgufMatch match{&rule};
    if (Matches(rule.gguf, name, &match)) return match;
  }
  return {};
}

}  // namespace opst
