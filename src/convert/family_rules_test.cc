// Single rules of families that the golden outputs alone do not pin down: what every multiplier
// does, what training noise does not do, and what is refused.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/errors.h"
#include "convert/testing/checkpoint_copy.h"
#include "model/family.h"
#include "opst/convert.h"
#include "opst/model.h"

namespace opst {
namespace {

using ::testing::AllOf;
using testing::CheckpointCopy;
using ::testing::HasSubstr;

class FamilyRulesTest : public ::testing::Test {
 protected:
  // Logits [T,V] of a fixed prompt.
  std::vector<float> Logits(const CheckpointCopy& copy) {
    Convert(context_, copy.Write(), copy.output(), {.overwrites = true});
    const Model model = Model::Load(context_, copy.output());
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < 20; ++i) prompt.push_back(4 + i * 7 % 60);
    const auto num_tokens = static_cast<int64_t>(prompt.size());
    Sequence sequence = model.NewSequence(num_tokens);
    const int64_t vocabulary = model.config().vocab_size;
    std::vector<float> logits(static_cast<size_t>(num_tokens * vocabulary));
    model.Forward(context_, prompt, sequence,
                  TensorView(logits.data(), Shape{num_tokens, vocabulary}));
    width_ = static_cast<std::ptrdiff_t>(vocabulary);
    return logits;
  }
  // The best token after each prefix.
  std::vector<std::ptrdiff_t> Best(const std::vector<float>& logits) const {
    std::vector<std::ptrdiff_t> best;
    for (auto row = logits.begin(); row != logits.end(); row += width_) {
      best.push_back(std::max_element(row, row + width_) - row);
    }
    return best;
  }
  std::string ErrorOf(const CheckpointCopy& copy) {
    return IoError([&] { Convert(context_, copy.Write(), copy.output(), {.overwrites = true}); });
  }

  const Context context_;
  std::ptrdiff_t width_ = 0;
};

// Without any one of its four multipliers, Granite says something else.
TEST_F(FamilyRulesTest, EveryMultiplierOfGraniteChangesTheText) {
  CheckpointCopy granite("granite-moe");
  const std::vector<float> logits = Logits(granite);
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "attention_multiplier"}) {
    CheckpointCopy other("granite-moe");
    other.config()[key] = 1.0;
    EXPECT_NE(Best(Logits(other)), Best(logits)) << key;
  }
  // A divisor of all logits does not move the best one.
  CheckpointCopy other("granite-moe");
  other.config()["logits_scaling"] = 3.0;
  const std::vector<float> doubled = Logits(other);
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_FLOAT_EQ(doubled[i], 2 * logits[i]);
}

// Noise belongs to training.
TEST_F(FamilyRulesTest, NoiseOfTrainingNeverRuns) {
  CheckpointCopy mixtral("mixtral");
  const std::vector<float> quiet = Logits(mixtral);
  mixtral.config()["router_jitter_noise"] = 0.5;
  EXPECT_EQ(Logits(mixtral), quiet);
  CheckpointCopy llama_moe("llama-moe");
  const std::vector<float> plain = Logits(llama_moe);
  llama_moe.config()["gate_add_noise"] = false;
  EXPECT_EQ(Logits(llama_moe), plain);
}

// Shared experts are not scaled with the routed ones. The layer's arithmetic is
// tested in moe_recipe_test; here, that the config reaches it once.
TEST_F(FamilyRulesTest, TheRoutedScaleOfDeepseekIsReadOnce) {
  CheckpointCopy copy("deepseek-v3");
  Convert(context_, copy.Write(), copy.output());
  EXPECT_EQ(Model::Load(context_, copy.output()).config().routing.scale, 2.5f);
  copy.config()["routed_scaling_factor"] = 1.0;
  EXPECT_NE(Best(Logits(copy)), Best(Logits(CheckpointCopy("deepseek-v3"))));
}

// What a family does not implement is refused by field and value, never skipped.
TEST_F(FamilyRulesTest, ValuesWithoutARuleAreRefused) {
  struct Setting {
    const char* family;
    const char* key;
    nlohmann::json value;
  };
  const Setting settings[] = {
      {"qwen2-moe", "decoder_sparse_step", 0},  // no step at all
      {"deepseek-v2", "topk_method", "noaux_tc"},
      {"deepseek-v2", "norm_topk_prob", true},
      {"deepseek-v2", "scoring_func", "sigmoid"},
      {"deepseek-v2", "n_group", 3},
      {"deepseek-v2", "attention_bias", true},
      {"deepseek-v3", "topk_method", "greedy"},
      {"deepseek-v3", "moe_layer_freq", 2},
      {"deepseek-v3", "topk_group", 5},
      {"deepseek-v3", "quantization_config", {{"quant_method", "fp8"}}},
      {"deepseek-v3", "qk_rope_head_dim", 5},
      {"gpt-oss", "layer_types", {"sliding_attention", "chunked_attention"}},
      {"gpt-oss", "layer_types", {"sliding_attention"}},
      {"gpt-oss", "rope_scaling", nullptr},
      {"gpt-oss", "hidden_act", "gelu_pytorch_tanh"},
      {"glm4-moe", "partial_rotary_factor", 0.3},
      {"ernie4-5-moe", "use_bias", true},
      {"ernie4-5-moe", "num_experts_per_tok", 1},
      {"ernie4-5-moe", "num_experts", 3},
      {"ernie4-5-moe", "partial_rotary_factor", 0.5},
      {"granite-moe", "partial_rotary_factor", 0.5},
      {"qwen2-moe", "partial_rotary_factor", 0.5},
      {"mixtral", "partial_rotary_factor", 0.5},
      {"phimoe", "num_experts_per_tok", 1},
      {"phimoe", "router_jitter_noise", 0},
      {"llama-moe", "gate_type", "SwitchBalancedGate"},
      {"llama-moe", "gate_network", "conv"},
      {"llama-moe", "multiply_gate_scores", false},
      {"llama-moe", "score_scale_factor", {1, 2, 3}},
      {"llama-moe", "size_experts", {{10, 10, 10, 10, 10, 10}, {5, 15, 10, 10, 10, 10}}},
      {"llama-moe-v2", "use_attn_moe", true},
      {"llama-moe-v2", "moe_type", "megablocks"},
      {"llama", "mlp_bias", true},
      {"qwen2", "layer_types", {1, 2, 3}}};
  for (const auto& [family, key, value] : settings) {
    CheckpointCopy copy(family);
    copy.config()[key] = value;
    EXPECT_THAT(ErrorOf(copy), AllOf(HasSubstr("config.json"), HasSubstr(key))) << family;
  }
}

TEST_F(FamilyRulesTest, ATokenizerThatIsNoFileIsNoMissingTokenizer) {
  const CheckpointCopy copy("olmoe");
  const std::string folder = copy.Write();
  std::filesystem::create_directory(folder + "/tokenizer.json");
  EXPECT_THAT(IoError([&] { Convert(context_, folder, copy.output(), {.overwrites = true}); }),
              HasSubstr("tokenizer.json] must be a regular file; got a folder"));
}

TEST_F(FamilyRulesTest, ScalingsOfPositionsAreCheckedFieldByField) {
  const std::pair<nlohmann::json, const char*> scalings[] = {
      {{{"type", "ntk"}, {"factor", 2}}, "rope_type"},
      {{{"type", "linear"}}, "factor must be given"},
      {{{"type", "linear"}, {"factor", -1}}, "factor"},
      {{{"type", "llama3"}, {"factor", 2}}, "low_freq_factor must be given"},
      {{{"rope_type", "llama3"}, {"factor", 2}, {"low_freq_factor", 4}, {"high_freq_factor", 1}},
       "high_freq_factor must be above"},
      {{{"type", "longrope"}, {"short_factor", {1}}, {"long_factor", {1}}},
       "short_factor must have one number per rotated pair"},
      {{{"type", "dynamic"}, {"factor", 0.5}}, "factor must be at least 1"},
      {nlohmann::json::array(), "rope_scaling must be an object"}};
  for (const auto& [scaling, rule] : scalings) {
    CheckpointCopy copy("llama");
    copy.config()["rope_scaling"] = scaling;
    EXPECT_THAT(ErrorOf(copy), HasSubstr(rule)) << scaling;
  }
  CheckpointCopy both("llama");
  both.config()["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10.0}};
  EXPECT_THAT(ErrorOf(both), HasSubstr("must not stand beside rope_parameters"));
}

// Keys inside the scaling count as well.
TEST_F(FamilyRulesTest, UnknownKeysOfAScalingAreReported) {
  CheckpointCopy copy("llama");
  copy.config()["rope_scaling"]["smoothness"] = 2;
  EXPECT_THAT(Convert(context_, copy.Write(), copy.output()).unknown_fields,
              ::testing::ElementsAre("rope_scaling.smoothness"));
}

// Otherwise a default would decide how positions are scaled, and every reader has its own.
TEST_F(FamilyRulesTest, AScalingOfPositionsThatNeedsALengthIsRefusedWithoutOne) {
  CheckpointCopy copy("llama");
  nlohmann::json& config = copy.config();
  for (const char* key : {"rope_scaling", "original_max_position_embeddings"}) config.erase(key);
  const auto read = [&](const nlohmann::json& scaling, bool has_length) {
    config["max_position_embeddings"] = has_length ? nlohmann::json(256) : nlohmann::json();
    config["rope_parameters"] = scaling;
    config["rope_parameters"]["rope_theta"] = 10000.0;
    return ErrorIfAny(ErrorKind::kIo, [&] { (void)ReadModelConfig(config.dump(), "config.json"); });
  };
  const std::string original = "original_max_position_embeddings";
  const nlohmann::json llama3 = {{"rope_type", "llama3"},
                                 {"factor", 4.0},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0}};
  for (const nlohmann::json& scaling :
       {nlohmann::json({{"rope_type", "dynamic"}, {"factor", 2.0}, {original, 64}}),
        nlohmann::json({{"rope_type", "yarn"}, {"factor", 4.0}}),
        nlohmann::json({{"rope_type", "yarn"}, {original, 64}}), llama3}) {
    EXPECT_THAT(read(scaling, false), HasSubstr("max_position_embeddings must be given, since the"))
        << scaling;
    EXPECT_EQ(read(scaling, true), "no error") << scaling;
  }
  EXPECT_EQ(read({{"rope_type", "linear"}, {"factor", 4.0}}, false), "no error");
  EXPECT_EQ(read({{"rope_type", "yarn"}, {"factor", 4.0}, {original, 64}}, false), "no error");
  EXPECT_THAT(read({{"rope_type", "yarn"}}, true),
              HasSubstr("rope_parameters.factor must be given"));
}

}  // namespace
}  // namespace opst
