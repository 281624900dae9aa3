// Qwen3: dense layers, RMS norm per query and key head.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

// The last layers slide.
bool IsSliding(int64_t layer, int64_t most) { return layer >= most; }

ModelConfig ReadQwen3(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model, {.head_dim = 128});
  model.dense_ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.is_moe.assign(static_cast<size_t>(model.num_layers), false);
  model.attention.qk_norm = AttentionRecipe::QkNorm::kPerHead;
  model.attention.has_qkv_bias = config.Bool("attention_bias", false);
  model.attention.has_output_bias = model.attention.has_qkv_bias;
  ReadSlidingLayers(config, model, IsSliding);
  return model;
}

}  // namespace

Family Qwen3() { return {"qwen3", ReadQwen3, {}}; }

}  // namespace opst
