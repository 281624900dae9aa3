// Llama 2 and 3: dense layers, which are the case of one expert that takes every token.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

ModelConfig ReadLlama(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model);
  model.dense_ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.is_moe.assign(static_cast<size_t>(model.num_layers), false);
  model.attention.has_qkv_bias = config.Bool("attention_bias", false);
  model.attention.has_output_bias = model.attention.has_qkv_bias;
  config.Require("mlp_bias", {"false"});
  config.Ignore({"pretraining_tp"});  // how weights were sliced in training
  return model;
}

}  // namespace

Family Llama() { return {"llama", ReadLlama, {}}; }

}  // namespace opst
