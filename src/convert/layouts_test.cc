// The same weights convert to the same bytes however their source arranges them; and what a source
// leaves open is refused.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "convert/testing/checkpoint_copy.h"
#include "convert/testing/fuse_experts.h"
#include "model/packed_model.h"
#include "opst/convert.h"
#include "opst/model.h"

namespace opst {
namespace {

using testing::CheckpointCopy;
using ::testing::HasSubstr;

std::string FileBytes(const std::string& path) {
  const auto file = MappedFile::Open(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// "name: checksum" of every packed tensor.
std::vector<std::string> Tensors(const std::string& path) {
  const auto file = SafetensorsFile::Open(path);
  std::vector<std::string> list;
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with("checksum.")) list.push_back(key + ": " + value);
  }
  std::sort(list.begin(), list.end());
  return list;
}

std::string ErrorOf(const Context& context, const CheckpointCopy& copy) {
  return ErrorIfAny(ErrorKind::kIo,
                    [&] { Convert(context, copy.Write(), copy.output(), {.overwrites = true}); });
}

// Fused and per-expert experts, with and without an index; and a fused
// routed expert beside separate shared ones.
class LayoutsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LayoutsTest, FusedPerExpertAndShardedSourcesGiveTheSameTensors) {
  const Context context;
  CheckpointCopy copy(GetParam());
  Convert(context, copy.Write(), copy.output());
  const auto expected = Tensors(copy.output());
  Convert(context, copy.Write(), copy.output(), {.overwrites = true});
  EXPECT_EQ(Tensors(copy.output()), expected);

  CheckpointCopy sharded(GetParam());
  Convert(context, sharded.Write(3), sharded.output());
  EXPECT_EQ(Tensors(sharded.output()), expected);

  CheckpointCopy fused(GetParam());
  if (fused.config()["model_type"] == "llama_moe") return;  // it has no fused form
  ASSERT_GT(testing::FuseExperts(fused), 0);
  Convert(context, fused.Write(), fused.output());
  EXPECT_EQ(Tensors(fused.output()), expected);
}

INSTANTIATE_TEST_SUITE_P(Tiny, LayoutsTest,
                         ::testing::Values("mixtral", "olmoe", "qwen2-moe", "qwen3-moe",
                                           "qwen3-moe-bf16", "deepseek-v2", "deepseek-v3",
                                           "glm4-moe", "ernie4-5-moe", "phimoe", "llama-moe",
                                           "llama-moe-v2"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ConvertTest, TwoConversionsAreIdenticalByteForByte) {
  const Context context;
  const CheckpointCopy first("olmoe");
  const CheckpointCopy second("olmoe");
  Convert(context, first.Write(), first.output());
  Convert(context, second.Write(), second.output());
  EXPECT_EQ(FileBytes(first.output()), FileBytes(second.output()));
}

// gpt-oss keeps experts as [in, out] with gate and up columns in turn. Its down
// matrix is square, so only the family can tell.
TEST(GptOssLayoutTest, ASquareDownMatrixIsReadTransposedAndGateUpDeInterleaved) {
  const Context context;
  CheckpointCopy copy("gpt-oss");
  Convert(context, copy.Write(), copy.output());
  const auto file = PackedModel::Open(copy.output(), LoadMode::kMap);
  const PackedWeights down = file->Panels(Role::kDown, 0);
  const PackedWeights gate_up = file->Panels(Role::kGateUp, 1);
  ASSERT_EQ(down.layout().in, down.layout().out);
  const auto value = [&](const std::string& name, int64_t index) {
    float result = 0;
    std::memcpy(&result, copy.tensor(name).bytes.data() + index * 4, 4);
    return result;
  };
  const int64_t hidden = down.layout().out;
  const int64_t ffn = down.layout().in;
  for (int64_t expert = 0; expert < down.num_experts(); ++expert) {
    for (int64_t f = 0; f < ffn; ++f) {
      for (int64_t h = 0; h < hidden; ++h) {
        EXPECT_EQ(down.At(expert, h, f),
                  value("model.layers.0.mlp.experts.down_proj", (expert * ffn + f) * hidden + h));
        const int64_t row = (expert * hidden + h) * 2 * ffn;
        const std::string name = "model.layers.1.mlp.experts.gate_up_proj";
        EXPECT_EQ(gate_up.At(expert, f, h), value(name, row + 2 * f));
        EXPECT_EQ(gate_up.At(expert, ffn + f, h), value(name, row + 2 * f + 1));
      }
    }
  }
  const std::vector<float> bias = file->Vector(Role::kGateUpBias, 0);
  for (int64_t i = 0; i < 2 * ffn; ++i) {
    const int64_t from = i < ffn ? 2 * i : 2 * (i - ffn) + 1;
    EXPECT_EQ(bias[static_cast<size_t>(i)],
              value("model.layers.0.mlp.experts.gate_up_proj_bias", from));
  }
}

// No family guesses how many experts there are.
TEST(ExpertCountTest, AMissingOrOtherCountIsRefused) {
  const Context context;
  const std::pair<const char*, const char*> fields[] = {{"mixtral", "num_local_experts"},
                                                        {"qwen2-moe", "num_experts"},
                                                        {"deepseek-v3", "n_routed_experts"},
                                                        {"ernie4-5-moe", "moe_num_experts"},
                                                        {"llama-moe", "num_experts"}};
  for (const auto& [family, field] : fields) {
    CheckpointCopy missing(family);
    missing.config().erase(field);
    EXPECT_THAT(ErrorOf(context, missing), HasSubstr("experts must be given")) << family;
    CheckpointCopy list(family);
    list.config()[field] = {4, 8};  // row 99: a count of each layer's own
    EXPECT_THAT(ErrorOf(context, list), HasSubstr(std::string(field) + " must be an integer"))
        << family;
  }
}

// Experts in a model that calls itself dense.
TEST(ExpertCountTest, ExpertsOfADenseFamilyAreLeftOver) {
  const Context context;
  CheckpointCopy copy("llama");
  copy.tensors().push_back({{"model.layers.0.mlp.experts.0.gate_proj.weight", "F32", {2, 2}},
                            std::vector<std::byte>(16)});
  EXPECT_THAT(ErrorOf(context, copy), HasSubstr("1 without one: model.layers.0.mlp.experts.0"));
}

// A head that is there and one that is not, against the flag.
TEST(TiedHeadTest, FlagAndTensorMustAgree) {
  const Context context;
  CheckpointCopy untied("qwen2-moe");
  untied.Remove("lm_head.weight");
  EXPECT_THAT(ErrorOf(context, untied), HasSubstr("must have the tensor lm_head.weight"));
  CheckpointCopy tied("qwen2-moe");
  tied.config()["tie_word_embeddings"] = true;
  EXPECT_THAT(ErrorOf(context, tied), HasSubstr("the head must equal the embedding"));
  tied.tensor("lm_head.weight").bytes = tied.tensor("model.embed_tokens.weight").bytes;
  EXPECT_EQ(ErrorOf(context, tied), "no error");
  tied.Remove("lm_head.weight");
  EXPECT_EQ(ErrorOf(context, tied), "no error");
}

// Layers that only guess further tokens are known, reported and not converted.
TEST(UnusedTensorsTest, PredictionLayersAreReported) {
  const Context context;
  CheckpointCopy copy("deepseek-v3");
  const std::string name = "model.layers.3.eh_proj.weight";
  copy.tensors().push_back({{name, "F32", {2}}, std::vector<std::byte>(8)});
  EXPECT_THAT(Convert(context, copy.Write(), copy.output()).unused_tensors,
              ::testing::ElementsAre(name));
  copy.tensors().push_back({{"model.layers.4.x", "F32", {2}}, std::vector<std::byte>(8)});
  EXPECT_THAT(ErrorOf(context, copy), HasSubstr("1 without one: model.layers.4.x"));
}

// No engine could agree with another about such a router.
TEST(SelectionBiasTest, ANanIsRefusedAtLoadWithLayerAndExpert) {
  const Context context;
  CheckpointCopy copy("deepseek-v3");
  Convert(context, copy.Write(), copy.output());
  // The converter refuses such weights; here the packed file is altered behind it.
  uint64_t at = 0;
  {
    const auto packed = SafetensorsFile::Open(copy.output());
    for (const auto& [key, names] : packed.metadata()) {
      if (names != "model.layers.1.mlp.gate.e_score_correction_bias") continue;
      at = packed.FileOffset(packed.At(key.substr(std::string("source.").size()))) + 8;
    }
  }
  ASSERT_GT(at, 0u);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::fstream file(copy.output(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(reinterpret_cast<const char*>(&nan), sizeof nan);
  file.close();
  const std::string error = IoError([&] { Model::Load(context, copy.output()); });
  EXPECT_THAT(error, HasSubstr("router biases must be finite"));
  EXPECT_THAT(error, HasSubstr("layer 1, expert 2"));
}

}  // namespace
}  // namespace opst
