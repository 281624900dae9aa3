// GLM-4.5 and 4.6: DeepSeek-V3's routing with plain attention, of whose heads a part is rotated.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadGlm4Moe(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model, {.rotated_share = 0.5});
  ReadDeepseekExperts(config, model, {.num_dense = 1});
  model.routing.score_function = ScoreFunction::kSigmoid;
  model.routing.has_selection_bias = true;
  model.routing.group_score = GroupScore::kSumOfTopTwo;
  model.routing.renormalizes = config.Bool("norm_topk_prob", true);
  model.attention.has_qkv_bias = config.Bool("attention_bias", false);
  if (config.Bool("use_qk_norm", false)) {
    model.attention.qk_norm = AttentionRecipe::QkNorm::kPerHead;
  }
  return model;
}

}  // namespace

Family Glm4Moe() {
  TensorNames names;
  names.unused.push_back("model.layers.{next}.*");
  return {"glm4_moe", ReadGlm4Moe, names};
}

}  // namespace opst
