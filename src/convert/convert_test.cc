// What the converter refuses, what it reports, and that nothing is left behind when it fails.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "convert/testing/checkpoint_copy.h"
#include "opst/model.h"

namespace opst {
namespace {

using ::testing::AllOf;
using testing::CheckpointCopy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kRouter = "model.layers.0.block_sparse_moe.gate.weight";

class ConvertErrorTest : public ::testing::Test {
 protected:
  // The text of the error that converting `copy` ends with. Whatever happens, no file may be left.
  std::string ErrorOf(const CheckpointCopy& copy, const ConvertOptions& options = {}) {
    const std::string source = copy.Write();
    std::string text = IoError([&] { Convert(context_, source, copy.output(), options); });
    EXPECT_THAT(ListFiles(source, ".opst"), IsEmpty());
    return text;
  }

  Context context_;
};

TEST_F(ConvertErrorTest, NamesAMissingTensor) {
  CheckpointCopy copy("mixtral");
  copy.Remove(kRouter);
  EXPECT_THAT(ErrorOf(copy), HasSubstr("must have the tensor " + kRouter));
}

TEST_F(ConvertErrorTest, NamesOneMissingExpert) {
  CheckpointCopy copy("mixtral");
  copy.Remove("model.layers.1.block_sparse_moe.experts.4.w2.weight");
  EXPECT_THAT(ErrorOf(copy),
              HasSubstr("must have the tensor model.layers.1.block_sparse_moe.experts.4.w2"));
}

TEST_F(ConvertErrorTest, NamesTensorsThatNobodyUses) {
  CheckpointCopy copy("mixtral");
  copy.tensors().push_back(
      {{"model.layers.0.self_attn.q_proj.bias", "F32", {60}}, std::vector<std::byte>(240)});
  EXPECT_THAT(ErrorOf(copy),
              AllOf(HasSubstr("every tensor must have a place in a mixtral model"),
                    HasSubstr("1 without one: model.layers.0.self_attn.q_proj.bias")));
}

TEST_F(ConvertErrorTest, AFourthExpertTensorBeyondTheConfigIsLeftOver) {
  CheckpointCopy copy("mixtral");
  copy.config()["num_local_experts"] = 4;
  copy.tensor(kRouter).declaration.shape[0] = 4;
  copy.tensor(kRouter).bytes.resize(4 * 48 * 4);
  auto& second = copy.tensor("model.layers.1.block_sparse_moe.gate.weight");
  second.declaration.shape[0] = 4;
  second.bytes.resize(4 * 48 * 4);
  EXPECT_THAT(ErrorOf(copy), HasSubstr("6 without one: model.layers.0.block_sparse_moe.experts.4"));
}

TEST_F(ConvertErrorTest, NamesATensorOfAnotherShape) {
  CheckpointCopy copy("mixtral");
  copy.tensor(kRouter).declaration.shape = {48, 5};
  EXPECT_THAT(ErrorOf(copy), AllOf(HasSubstr("must be [5,48] by config.json"), HasSubstr(kRouter),
                                   HasSubstr("[48,5]")));
}

TEST_F(ConvertErrorTest, NamesAnElementTypeItCannotUse) {
  CheckpointCopy copy("mixtral");
  copy.tensor(kRouter).declaration.dtype = "I32";
  EXPECT_THAT(ErrorOf(copy), AllOf(HasSubstr("must be F32, BF16 or F16"), HasSubstr(kRouter)));
}

TEST_F(ConvertErrorTest, RefusesSettingsItDoesNotImplement) {
  const std::vector<std::pair<std::string, nlohmann::json>> settings = {
      {"hidden_act", "gelu_new"},
      {"rope_scaling", {{"type", "yarn"}, {"factor", 4}}},
      {"quantization_config", {{"bits", 4}}},
      {"num_experts_per_tok", 6},
      {"num_key_value_heads", 4},
      {"head_dim", 9},
      {"hidden_size", -48},
      {"rms_norm_eps", "small"},
      {"model_type", "gpt2"}};
  for (const auto& [key, value] : settings) {
    CheckpointCopy copy("mixtral");
    copy.config()[key] = value;
    EXPECT_THAT(ErrorOf(copy), AllOf(HasSubstr("config.json"), HasSubstr(key))) << key;
  }
}

TEST_F(ConvertErrorTest, UnknownConfigFieldsAreErrorsOnlyWhenStrict) {
  CheckpointCopy copy("mixtral");
  copy.config()["swiglu_limit"] = 7.0;
  EXPECT_THAT(ErrorOf(copy, {.is_strict = true}), HasSubstr("swiglu_limit"));
  std::vector<std::string> lines;
  const Context context(
      {.log_sink = [&](LogLevel, std::string_view line) { lines.emplace_back(line); }});
  const ConvertReport report = Convert(context, copy.Write(), copy.output());
  EXPECT_THAT(report.unknown_fields, ElementsAre("swiglu_limit"));
  EXPECT_THAT(lines, ElementsAre(HasSubstr("swiglu_limit")));
}

TEST_F(ConvertErrorTest, ATiedHeadMustHoldTheEmbedding) {
  CheckpointCopy copy("mixtral");
  copy.config()["tie_word_embeddings"] = true;
  EXPECT_THAT(ErrorOf(copy), HasSubstr("the head must equal the embedding"));
  copy.tensor("lm_head.weight").bytes = copy.tensor("model.embed_tokens.weight").bytes;
  EXPECT_EQ(Convert(context_, copy.Write(), copy.output()).family, "mixtral");
}

TEST_F(ConvertErrorTest, AnUntiedModelMustHaveItsHead) {
  CheckpointCopy copy("mixtral");
  copy.Remove("lm_head.weight");
  EXPECT_THAT(ErrorOf(copy), HasSubstr("must have the tensor lm_head.weight"));
}

TEST_F(ConvertErrorTest, AShortenedFileIsRefusedWithBothSizes) {
  const CheckpointCopy copy("mixtral");
  const std::string path = copy.Write() + "/model.safetensors";
  const std::string bytes = ReadWholeFile(path, 1 << 24);
  for (const size_t missing : {size_t{1}, size_t{4096}, bytes.size() / 4}) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() - missing);
    EXPECT_THAT(IoError([&] { Convert(context_, ParentFolder(path), copy.output()); }),
                AllOf(HasSubstr("model.safetensors"), HasSubstr("truncated?")));
  }
}

TEST_F(ConvertErrorTest, MixedTypesInOneMatrixAreNamed) {
  CheckpointCopy copy("mixtral");
  auto& key = copy.tensor("model.layers.0.self_attn.k_proj.weight");
  key.declaration.dtype = "BF16";
  key.bytes.resize(key.bytes.size() / 2);
  EXPECT_THAT(ErrorOf(copy), HasSubstr("sources of layers.0.attention.qkv must have one dtype"));
}

TEST(ConvertOutputTest, RefusesToOverwriteUnlessAsked) {
  const Context context;
  const CheckpointCopy copy("mixtral");
  const std::string source = copy.Write();
  Convert(context, source, copy.output());
  EXPECT_THROW(Convert(context, source, copy.output()), Error);
  EXPECT_GT(Convert(context, source, copy.output(), {.overwrites = true}).output_bytes, 0u);
}

TEST(ConvertOutputTest, KnownUnusedTensorsAreReported) {
  const Context context;
  CheckpointCopy copy("mixtral");
  const std::string name = "model.layers.1.self_attn.rotary_emb.inv_freq";
  copy.tensors().push_back({{name, "F32", {5}}, std::vector<std::byte>(20)});
  EXPECT_THAT(Convert(context, copy.Write(), copy.output()).unused_tensors, ElementsAre(name));
}

TEST(ConvertOutputTest, ProgressEndsAtTheTensorBytes) {
  const Context context;
  const CheckpointCopy copy("olmoe");
  uint64_t last = 0;
  uint64_t last_total = 0;
  ConvertOptions options;
  options.on_progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, total);
    last = done;
    last_total = total;
  };
  const ConvertReport report = Convert(context, copy.Write(), copy.output(), options);
  EXPECT_EQ(last, report.output_bytes);
  EXPECT_EQ(last_total, report.output_bytes);
}

}  // namespace
}  // namespace opst
