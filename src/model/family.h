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

#include "model/config_reader.h"
#include "opst/model_config.h"

namespace opst {

// Source tensor names; {layer} and {expert} are replaced by numbers. "a|b": the checkpoint has one
// of the two. Empty = the family has none.
struct TensorNames {
  std::string_view embedding = "model.embed_tokens.weight";  // [V,H]
  std::string_view final_norm = "model.norm.weight";         // [H]
  std::string_view head = "lm_head.weight";                  // [V,H]; absent when tied
  std::string_view attention_norm = "model.layers.{layer}.input_layernorm.weight";
  std::string_view ffn_norm = "model.layers.{layer}.post_attention_layernorm.weight";
  std::string_view query = "model.layers.{layer}.self_attn.q_proj.weight";  // [heads·d, H]
  std::string_view key = "model.layers.{layer}.self_attn.k_proj.weight";    // [kv heads·d, H]
  std::string_view value = "model.layers.{layer}.self_attn.v_proj.weight";
  std::string_view output = "model.layers.{layer}.self_attn.o_proj.weight";  // [H, heads·d]
  std::string_view query_norm = "model.layers.{layer}.self_attn.q_norm.weight";
  std::string_view key_norm = "model.layers.{layer}.self_attn.k_norm.weight";
  std::string_view router = "model.layers.{layer}.mlp.gate.weight";  // [E,H]
  // One tensor per expert …
  std::string_view expert_gate = "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight";
  std::string_view expert_up = "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight";
  std::string_view expert_down = "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight";
  // … or all experts in one.
  std::string_view fused_gate_up = "model.layers.{layer}.mlp.experts.gate_up_proj";  // [E,2F,H]
  std::string_view fused_down = "model.layers.{layer}.mlp.experts.down_proj";        // [E,H,F]
  std::string_view dense_gate = "model.layers.{layer}.mlp.gate_proj.weight";
  std::string_view dense_up = "model.layers.{layer}.mlp.up_proj.weight";
  std::string_view dense_down = "model.layers.{layer}.mlp.down_proj.weight";
  // Tensors of the checkpoint that inference does not need; * stands for anything.
  std::vector<std::string_view> unused = {"model.layers.*.self_attn.rotary_emb.inv_freq"};
};

struct Family {
  std::string_view model_type;
  ModelConfig (*read_config)(ConfigReader& config);
  TensorNames names;
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

// num_experts or, as transformers 5 calls it, num_local_experts.
int64_t ReadNumExperts(ConfigReader& config);
// What most families have in common; a family reads the rest. Limits keep products far below 2^63.
void ReadCommonFields(ConfigReader& config, ModelConfig& model);
// rope_theta of both layouts of transformers; refuses scaled variants by name.
float ReadRopeTheta(ConfigReader& config);
// The activation's name, refused when unknown.
Activation ReadActivation(ConfigReader& config);

}  // namespace opst

#endif  // OPST_MODEL_FAMILY_H_
