// Family: how one kind of Hugging Face checkpoint maps to our recipe and our tensors; and the list
// of all of them. No computation.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_FAMILY_H_
#define OPST_MODEL_FAMILY_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config_fields.h"
#include "model/config_reader.h"
#include "opst/model_config.h"

namespace opst {

// Source tensor names; {layer} and {expert} are replaced by numbers. "a|b": the checkpoint has one
// of the two. Only names whose tensors the recipe asks for are looked up.
struct TensorNames {
  std::string_view embedding = "model.embed_tokens.weight";  // [V,H]
  std::string_view final_norm = "model.norm.weight";         // [H]
  std::string_view final_norm_bias = "model.norm.bias";
  std::string_view head = "lm_head.weight";  // [V,H]; absent when tied
  std::string_view head_bias = "lm_head.bias";
  std::string_view attention_norm = "model.layers.{layer}.input_layernorm.weight";
  std::string_view attention_norm_bias = "model.layers.{layer}.input_layernorm.bias";
  std::string_view ffn_norm = "model.layers.{layer}.post_attention_layernorm.weight";
  std::string_view ffn_norm_bias = "model.layers.{layer}.post_attention_layernorm.bias";

  std::string_view query = "model.layers.{layer}.self_attn.q_proj.weight";  // [heads·d, H]
  std::string_view key = "model.layers.{layer}.self_attn.k_proj.weight";    // [kv heads·d, H]
  std::string_view value = "model.layers.{layer}.self_attn.v_proj.weight";
  std::string_view output = "model.layers.{layer}.self_attn.o_proj.weight";  // [H, heads·d]
  std::string_view query_bias = "model.layers.{layer}.self_attn.q_proj.bias";
  std::string_view key_bias = "model.layers.{layer}.self_attn.k_proj.bias";
  std::string_view value_bias = "model.layers.{layer}.self_attn.v_proj.bias";
  std::string_view output_bias = "model.layers.{layer}.self_attn.o_proj.bias";
  std::string_view query_norm = "model.layers.{layer}.self_attn.q_norm.weight";
  std::string_view key_norm = "model.layers.{layer}.self_attn.k_norm.weight";
  std::string_view sinks = "model.layers.{layer}.self_attn.sinks";  // [heads]
  // Of latent attention: down to a rank and, after a norm, up to the heads.
  std::string_view query_down = "model.layers.{layer}.self_attn.q_a_proj.weight";
  std::string_view query_down_norm = "model.layers.{layer}.self_attn.q_a_layernorm.weight";
  std::string_view query_up = "model.layers.{layer}.self_attn.q_b_proj.weight";
  std::string_view kv_down = "model.layers.{layer}.self_attn.kv_a_proj_with_mqa.weight";
  std::string_view kv_down_norm = "model.layers.{layer}.self_attn.kv_a_layernorm.weight";
  // [heads·(content_dim + value_dim), kv_rank]
  std::string_view kv_up = "model.layers.{layer}.self_attn.kv_b_proj.weight";

  std::string_view router = "model.layers.{layer}.mlp.gate.weight";  // [E,H]
  std::string_view router_bias = {};                                 // [E]
  std::string_view router_hidden = {};                               // [hidden_dim,H]
  std::string_view selection_bias = "model.layers.{layer}.mlp.gate.e_score_correction_bias";
  // One tensor per expert …
  std::string_view expert_gate = "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight";
  std::string_view expert_up = "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight";
  std::string_view expert_down = "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight";
  // … or all experts in one, in the family's FusedLayout.
  std::string_view fused_gate_up = "model.layers.{layer}.mlp.experts.gate_up_proj";
  std::string_view fused_down = "model.layers.{layer}.mlp.experts.down_proj";
  std::string_view fused_gate_up_bias = {};  // [E,2F]
  std::string_view fused_down_bias = {};     // [E,H]
  std::string_view shared_gate = "model.layers.{layer}.mlp.shared_experts.gate_proj.weight";
  std::string_view shared_up = "model.layers.{layer}.mlp.shared_experts.up_proj.weight";
  std::string_view shared_down = "model.layers.{layer}.mlp.shared_experts.down_proj.weight";
  std::string_view shared_expert_gate = {};  // [1,H]
  std::string_view dense_gate = "model.layers.{layer}.mlp.gate_proj.weight";
  std::string_view dense_up = "model.layers.{layer}.mlp.up_proj.weight";
  std::string_view dense_down = "model.layers.{layer}.mlp.down_proj.weight";
  // Tensors of the checkpoint that inference does not need. * stands for anything, {next} for the
  // number of each layer behind the last one.
  std::vector<std::string_view> unused = {"model.layers.*.self_attn.rotary_emb.inv_freq"};
};

// How a family stores all experts of a layer in one tensor. Decided by the family, never by shapes:
// square matrices fit both ways.
enum class FusedLayout : uint8_t {
  kRows,         // gate_up [E,2F,H], gate rows first; down [E,H,F]
  kInterleaved,  // gate_up [E,H,2F], columns gate, up, gate, up …; down [E,F,H]
};

struct Family {
  std::string_view model_type;
  ModelConfig (*read_config)(ConfigReader& config);
  TensorNames names;
  FusedLayout fused_layout = FusedLayout::kRows;
};

// All families, in the order of the docs.
std::span<const Family> Families();

// Throws kIo naming the known families.
const Family& FindFamily(std::string_view model_type, const std::string& file);

// Reads config.json. `unknown_fields` gets the fields that no rule of the family names.
ModelConfig ReadModelConfig(std::string_view json, const std::string& file,
                            std::vector<std::string>* unknown_fields = nullptr);

// "model.layers.{layer}.x" → "model.layers.3.x"
std::string TensorName(std::string_view pattern, int64_t layer, int64_t expert = 0);
// Whether `name` matches `pattern`, in which one * stands for any text.
bool MatchesPattern(std::string_view name, std::string_view pattern);

}  // namespace opst

#endif  // OPST_MODEL_FAMILY_H_
