// Qwen2 and Qwen2.5: dense layers, biases on q, k and v.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

namespace opst {
namespace {

// The last layers slide.
bool IsSliding(int64_t layer, int64_t most) { return layer >= most; }

ModelConfig ReadQwen2(ConfigReader& config) {
  ModelConfig model;
  ReadCommonFields(config, model);
  model.dense_ffn = config.Integer("intermediate_size", 1, kMaxFfn);
  model.is_moe.assign(static_cast<size_t>(model.num_layers), false);
  model.attention.has_qkv_bias = true;
  ReadSlidingLayers(config, model, IsSliding);
  return model;
}

}  // namespace

Family Qwen2() { return {"qwen2", ReadQwen2, {}}; }

}  // namespace opst
