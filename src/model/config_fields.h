// Readers of the groups of config.json fields that families share. What only one family has is read
// in its own file.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_CONFIG_FIELDS_H_
#define OPST_MODEL_CONFIG_FIELDS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/config_reader.h"
#include "opst/model_config.h"

namespace opst {

inline constexpr int64_t kMaxExperts = 65536;
inline constexpr int64_t kMaxFfn = int64_t{1} << 24;
inline constexpr int64_t kMaxPositions = int64_t{1} << 31;

// What a family assumes about attention when its config.json does not say.
struct AttentionDefaults {
  double theta = 10000.0;
  double rotated_share = 1.0;  // of a head
  int64_t head_dim = 0;        // 0 = hidden_size / num_attention_heads
};

// ReadModelFields, then ReadAttentionFields. Limits keep all products far below 2^63.
void ReadCommonFields(ConfigReader& config, ModelConfig& model,
                      const AttentionDefaults& defaults = {});
// Sizes, norms, vocabulary, activation: what all families have.
void ReadModelFields(ConfigReader& config, ModelConfig& model);
// Heads and positions of attention with a key and a value per head.
void ReadAttentionFields(ConfigReader& config, ModelConfig& model,
                         const AttentionDefaults& defaults);
// Heads, ranks and positions of multi-head latent attention.
void ReadLatentAttention(ConfigReader& config, ModelConfig& model);

// rope_theta, rope_parameters and rope_scaling of both dialects; refuses unknown kinds by name.
RopeRecipe ReadRope(ConfigReader& config, int64_t head_dim, int64_t max_positions,
                    const AttentionDefaults& defaults);
// What DeepSeek multiplies the attention scores with when positions are scaled.
double ReadLatentScoreFactor(ConfigReader& config);

// num_experts or, as transformers 5 calls it, num_local_experts.
int64_t ReadNumExperts(ConfigReader& config);
// Experts under `key`, and num_experts_per_tok of them per token.
void ReadRouting(ConfigReader& config, std::string_view key, ModelConfig& model);
// DeepSeek's way, which GLM shares: n_routed_experts, groups, shared experts, leading dense layers.
// `defaults` of the family's class in transformers.
struct DeepseekDefaults {
  int64_t num_shared = 1;
  double scale = 1;
  int64_t num_groups = 1;
  int64_t num_kept_groups = 1;
  int64_t num_dense = 0;
};
void ReadDeepseekExperts(ConfigReader& config, ModelConfig& model,
                         const DeepseekDefaults& defaults);
// mlp_only_layers and decoder_sparse_step: a layer is dense when it is listed, or when it is not
// the last of its group of `step` layers.
std::vector<bool> ReadSparseLayers(ConfigReader& config, int64_t num_layers);
// use_sliding_window, sliding_window and layer_types; `is_sliding(layer)` when no types are given.
void ReadSlidingLayers(ConfigReader& config, ModelConfig& model,
                       bool (*is_sliding)(int64_t layer, int64_t most));
// layer_types: whether each layer is "sliding_attention"; empty when the field is missing.
std::vector<bool> ReadLayerTypes(ConfigReader& config, int64_t num_layers);
// The activation's name, refused when unknown.
Activation ReadActivation(ConfigReader& config);

}  // namespace opst

#endif  // OPST_MODEL_CONFIG_FIELDS_H_
