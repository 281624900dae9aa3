// DeepSeek-V2 and V2-Lite: latent attention, softmax scores, groups ranked by their best expert.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadDeepseekV2(ConfigReader& config) {
  ModelConfig model;
  ReadModelFields(config, model);
  ReadLatentAttention(config, model);
  model.attention.rope.is_interleaved = true;
  ReadDeepseekExperts(config, model, {.num_shared = 2});
  model.routing.group_score = GroupScore::kMax;
  // The code that came with the models scales either by the sum or by the factor, the one in
  // transformers only by the factor. They agree on the published models, which do not renormalise.
  config.Require("norm_topk_prob", {"false"});
  model.routing.renormalizes = false;
  config.Require("scoring_func", {"\"softmax\""});
  const std::string method = config.String("topk_method", "greedy");
  if (method == "greedy") {
    model.routing.num_groups = model.routing.num_kept_groups = 1;
  } else if (method != "group_limited_greedy") {
    config.Refuse("topk_method", "must be greedy or group_limited_greedy");
  }
  config.Require("mlp_bias", {"false"});
  return model;
}

}  // namespace

Family DeepseekV2() { return {"deepseek_v2", ReadDeepseekV2, {}}; }

}  // namespace opst
