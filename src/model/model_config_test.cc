// The recipe's text is stable: files packed by earlier versions hold it and are compared with it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "io/file.h"
#include "model/family.h"

namespace opst {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ModelConfig ReadFolder(const std::string& folder) {
  const std::string path = std::string(OPST_SOURCE_DIR) + "/" + folder + "/config.json";
  return ReadModelConfig(ReadWholeFile(path, 1 << 20), path);
}

// As the first version of opst_format 1 wrote it for the bundled model. Never change this text: a
// new field must be left out at its default.
TEST(ModelConfigTest, TheRecipeOfTheFirstFormatHasNotChanged) {
  EXPECT_EQ(ReadFolder("models/austen-moe").ToJson(),
            R"({"family":"qwen3_moe","num_layers":4,"vocab_size":4096,"max_positions":512,)"
            R"("norm_eps":9.999999974752427e-07,"ties_embeddings":true,"attention":{"num_heads":4,)"
            R"("num_kv_heads":2,"head_dim":64,"rope_theta":10000.0,"qk_norm":"per_head",)"
            R"("qkv_clip":0.0,"sliding_window":0},"routing":{"num_experts":8,"top_k":2,)"
            R"("score_function":"softmax","has_selection_bias":false,"num_groups":1,)"
            R"("num_kept_groups":1,"group_score":"max","renormalizes":true,"scale":1.0},)"
            R"("ffn":{"hidden":256,"ffn":96,"activation":"silu","shared_ffn":0,)"
            R"("has_shared_gate":false},"dense_ffn":192,"dense_layers":[],"end_tokens":[0]})");
}

// Two recipes that compute different things must have different texts.
TEST(ModelConfigTest, EveryFieldShowsInTheText) {
  ModelConfig model = ReadFolder("models/austen-moe");
  const std::string before = model.ToJson();
  const auto expect_shown = [&](auto change) {
    ModelConfig other = model;
    change(other);
    EXPECT_NE(other.ToJson(), before);
  };
  expect_shown([](ModelConfig& m) { m.norm_kind = NormKind::kLayer; });
  expect_shown([](ModelConfig& m) { m.has_head_bias = true; });
  expect_shown([](ModelConfig& m) { m.embedding_scale = 2; });
  expect_shown([](ModelConfig& m) { m.residual_scale = 2; });
  expect_shown([](ModelConfig& m) { m.logit_divisor = 2; });
  expect_shown([](ModelConfig& m) { m.is_sliding = {true, false, false, false}; });
  expect_shown([](ModelConfig& m) { m.routing_scales = {1, 2, 3, 4}; });
  expect_shown([](ModelConfig& m) { m.routing.has_bias = true; });
  expect_shown([](ModelConfig& m) { m.routing.hidden_dim = 3; });
  expect_shown([](ModelConfig& m) { m.routing.load_balance_ratio = 0.5f; });
  for (const SelectionRule rule :
       {SelectionRule::kThreshold, SelectionRule::kTopP, SelectionRule::kEntropy}) {
    expect_shown([&](ModelConfig& m) { m.routing.selection.rule = rule; });
  }
  expect_shown([](ModelConfig& m) { m.routing.score_function = ScoreFunction::kSparsemixer; });
  expect_shown([](ModelConfig& m) { m.ffn.has_bias = true; });
  expect_shown([](ModelConfig& m) { m.ffn.activation = Activation::kClampedSwiglu; });
  expect_shown([](ModelConfig& m) { m.attention.score_scale = 0.5f; });
  expect_shown([](ModelConfig& m) { m.attention.has_qkv_bias = true; });
  expect_shown([](ModelConfig& m) { m.attention.has_output_bias = true; });
  expect_shown([](ModelConfig& m) { m.attention.has_sinks = true; });
  expect_shown([](ModelConfig& m) { m.attention.latent.kv_rank = 16; });
  expect_shown([](ModelConfig& m) { m.attention.rope.dim = 32; });
  expect_shown([](ModelConfig& m) { m.attention.rope.is_interleaved = true; });
  expect_shown([](ModelConfig& m) { m.attention.rope.amplitude = 1.5f; });
  using Scaling = RopeRecipe::Scaling;
  for (const Scaling scaling : {Scaling::kLinear, Scaling::kDynamic, Scaling::kYarn,
                                Scaling::kLlama3, Scaling::kLongRope}) {
    expect_shown([&](ModelConfig& m) { m.attention.rope.scaling = scaling; });
  }
}

// Layers that are not converted are no part of what is computed.
TEST(ModelConfigTest, PredictionLayersDoNotShow) {
  EXPECT_THAT(ReadFolder("tests/data/tiny/deepseek-v3").ToJson(), Not(HasSubstr("prediction")));
}

}  // namespace
}  // namespace opst
