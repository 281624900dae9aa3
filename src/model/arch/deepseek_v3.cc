// DeepSeek-V3 and R1: latent attention, sigmoid scores, a bias that only selects, groups ranked by
// the sum of their two best experts, layers behind the last one that guess further tokens.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadDeepseekV3(ConfigReader& config) {
  ModelConfig model;
  ReadModelFields(config, model);
  ReadLatentAttention(config, model);
  model.attention.rope.is_interleaved = config.Bool("rope_interleave", true);
  ReadDeepseekExperts(config, model,
                      {.scale = 2.5, .num_groups = 8, .num_kept_groups = 4, .num_dense = 3});
  model.routing.score_function = ScoreFunction::kSigmoid;
  model.routing.has_selection_bias = true;
  model.routing.group_score = GroupScore::kSumOfTopTwo;
  model.routing.renormalizes = config.Bool("norm_topk_prob", true);
  config.Require("scoring_func", {"\"sigmoid\""});
  config.Require("topk_method", {"\"noaux_tc\""});
  return model;
}

}  // namespace

Family DeepseekV3() {
  TensorNames names;
  names.unused.push_back("model.layers.{next}.*");
  return {"deepseek_v3", ReadDeepseekV3, names};
}

}  // namespace opst
