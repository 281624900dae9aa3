// GGUF files against the Hugging Face folders they were made from, and against their own blocks.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/gguf_source.h"

#include <gtest/gtest.h>

#include <random>

#include "convert/testing/sources.h"
#include "io/testing/files.h"
#include "io/testing/gguf_builder.h"
#include "model/packed_model.h"
#include "opst/convert.h"
#include "tensor/dequantize.h"

namespace opst {
namespace {

using testing::ExpectIoError;
using testing::FloatsOf;
using testing::GgufBuilder;
using testing::ReadFloats;

const std::string kData = std::string(OPST_SOURCE_DIR) + "/tests/data/";

struct Pair {
  const char* gguf;
  const char* folder;
  // A GGUF file cannot say everything: not the limit of gpt-oss's activation, nor two different
  // factors of a YaRN amplitude.
  bool has_same_recipe = true;
};

class GgufGolden : public ::testing::TestWithParam<Pair> {};
INSTANTIATE_TEST_SUITE_P(Tiny, GgufGolden,
                         ::testing::Values(Pair{"mixtral-00002-of-00002.gguf", "mixtral"},
                                           Pair{"olmoe.gguf", "olmoe"},
                                           Pair{"qwen3-moe.gguf", "qwen3-moe"},
                                           Pair{"qwen3-moe-bf16.gguf", "qwen3-moe-bf16"},
                                           Pair{"qwen2-moe.gguf", "qwen2-moe"},
                                           Pair{"qwen3.gguf", "qwen3"},
                                           Pair{"deepseek-v2-lite.gguf", "deepseek-v2-lite"},
                                           Pair{"deepseek-v3.gguf", "deepseek-v3", false},
                                           Pair{"gpt-oss.gguf", "gpt-oss", false}),
                         [](const auto& tested) {
                           std::string name = tested.param.folder;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The folder's own model is compared with transformers in golden_test.cc.
TEST_P(GgufGolden, ConvertsToTheModelOfTheFolder) {
  const Context context;
  const TempFolder folder;
  const std::string a = folder.File("a.opst"), b = folder.File("b.opst");
  const ConvertReport report = Convert(context, kData + "gguf/" + GetParam().gguf, a);
  Convert(context, kData + "tiny/" + GetParam().folder, b);
  EXPECT_TRUE(report.unknown_fields.empty()) << report.unknown_fields.front();
  const auto from_gguf = PackedModel::Open(a, LoadMode::kMap);
  const auto from_folder = PackedModel::Open(b, LoadMode::kMap);
  if (GetParam().has_same_recipe) {
    EXPECT_EQ(from_gguf->config().ToJson(), from_folder->config().ToJson());
  }
  for (const PackedTensor& tensor : PackedTensors(from_folder->config())) {
    const SafetensorsTensor& left = from_gguf->file().At(tensor.name());
    const SafetensorsTensor& right = from_folder->file().At(tensor.name());
    // Vectors are F32 in every GGUF file; their values are the same.
    if (tensor.storage != Storage::kVector) {
      EXPECT_EQ(left.dtype, right.dtype) << tensor.name();
    }
    EXPECT_EQ(FloatsOf(left.dtype, from_gguf->file().Bytes(left)),
              FloatsOf(right.dtype, from_folder->file().Bytes(right)))
        << tensor.name();
  }
}

constexpr int64_t kHidden = 256, kFfn = 512, kHeads = 4, kKvHeads = 2, kExperts = 2;

std::string RandomBlocks(uint32_t type, uint64_t values, std::mt19937& random) {
  const GgmlType& ggml = *FindGgmlType(type);
  std::string bytes(values / static_cast<uint64_t>(ggml.block_values) * ggml.block_bytes, '\0');
  // Every byte below 0x7C: no half and no bfloat16 made of such bytes is NaN or infinite.
  for (char& byte : bytes) byte = static_cast<char>(random() % 0x7C);
  return bytes;
}

// A Mixtral of one layer whose matrices are random blocks of `type`.
std::string Mixtral(uint32_t type) {
  std::mt19937 random(type);
  GgufBuilder builder;
  builder.String("general.architecture", "llama")
      .U32("llama.block_count", 1)
      .U32("llama.context_length", 64)
      .U32("llama.embedding_length", kHidden)
      .U32("llama.feed_forward_length", kFfn)
      .U32("llama.attention.head_count", kHeads)
      .U32("llama.attention.head_count_kv", kKvHeads)
      .U32("llama.expert_count", kExperts)
      .U32("llama.expert_used_count", 1)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const auto matrix = [&](std::string_view name, std::vector<uint64_t> extents) {
    uint64_t values = 1;
    for (const uint64_t extent : extents) values *= extent;
    builder.Tensor(name, extents, type, RandomBlocks(type, values, random));
  };
  const auto vector = [&](std::string_view name) {
    builder.Tensor(name, {kHidden}, 0, RandomBlocks(0, kHidden, random));
  };
  matrix("token_embd.weight", {kHidden, 32});
  vector("output_norm.weight");
  vector("blk.0.attn_norm.weight");
  vector("blk.0.ffn_norm.weight");
  matrix("blk.0.attn_q.weight", {kHidden, kHidden});
  matrix("blk.0.attn_k.weight", {kHidden, kHidden / 2});
  matrix("blk.0.attn_v.weight", {kHidden, kHidden / 2});
  matrix("blk.0.attn_output.weight", {kHidden, kHidden});
  builder.Tensor("blk.0.ffn_gate_inp.weight", {kHidden, kExperts}, 0,
                 RandomBlocks(0, kHidden * kExperts, random));
  matrix("blk.0.ffn_gate_exps.weight", {kHidden, kFfn, kExperts});
  matrix("blk.0.ffn_up_exps.weight", {kHidden, kFfn, kExperts});
  matrix("blk.0.ffn_down_exps.weight", {kFfn, kHidden, kExperts});
  return builder.Bytes();
}

// All values of a tensor of the file in the file's order.
std::vector<float> Expanded(const GgufCheckpoint& file, std::string_view name) {
  const auto& tensor = *file.Find(name);
  const GgmlType& type = *tensor.tensor->type;
  if (type.dtype) return FloatsOf(SafetensorsSpelling(*type.dtype), tensor.bytes());
  const int64_t blocks = static_cast<int64_t>(tensor.tensor->num_bytes / type.block_bytes);
  std::vector<float> values(static_cast<size_t>(blocks * type.block_values));
  Dequantize(*type.quant, tensor.bytes().data(), blocks, values.data());
  return values;
}

TEST(GgufSourceTest, EveryTypeIsExpandedRowByRow) {
  const TempFolder folder;
  for (const uint32_t type : {0u, 1u, 30u, 2u, 3u, 6u, 7u, 8u, 10u, 11u, 12u, 13u, 14u, 20u, 39u}) {
    const std::string path = folder.Write("m.gguf", Mixtral(type));
    const GgufSource source(path, DType::kF32);
    const auto file = GgufCheckpoint::Open(path);
    SCOPED_TRACE(FindGgmlType(type)->name);
    EXPECT_EQ(ReadFloats(source, "model.layers.0.self_attn.v_proj.weight"),
              Expanded(file, "blk.0.attn_v.weight"));
    const std::vector<float> down = Expanded(file, "blk.0.ffn_down_exps.weight");
    for (int64_t e = 0; e < kExperts; ++e) {
      const auto begin = down.begin() + e * kFfn * kHidden;
      EXPECT_EQ(ReadFloats(source, "model.layers.0.block_sparse_moe.experts." + std::to_string(e) +
                                       ".w2.weight"),
                std::vector<float>(begin, begin + kFfn * kHidden));
    }
    const std::vector<float> keys = Expanded(file, "blk.0.attn_k.weight");
    const std::vector<float> plain = ReadFloats(source, "model.layers.0.self_attn.k_proj.weight");
    const int64_t head = kHidden / kHeads;
    for (int64_t h = 0; h < kKvHeads; ++h) {
      for (int64_t pair = 0; pair < head / 2; ++pair) {
        for (int64_t half = 0; half < 2; ++half) {
          for (const int64_t k : {int64_t{0}, kHidden - 1}) {
            EXPECT_EQ(plain[static_cast<size_t>((h * head + half * head / 2 + pair) * kHidden + k)],
                      keys[static_cast<size_t>((h * head + 2 * pair + half) * kHidden + k)]);
          }
        }
      }
    }
  }
}

TEST(GgufSourceTest, AWholeQuantisedModelConvertsAndItsFileIsSound) {
  const Context context;
  const TempFolder folder;
  const std::string path = folder.Write("m.gguf", Mixtral(12));
  Convert(context, path, folder.File("m.opst"));
  const auto model = PackedModel::Open(folder.File("m.opst"), LoadMode::kMap);
  model->CheckChecksums();
  EXPECT_EQ(model->file().At("layers.0.moe.gate_up").dtype, "BF16");
  EXPECT_EQ(model->file().At("layers.0.moe.router").dtype, "F32");
}

TEST(GgufSourceTest, TensorsWithoutARuleAndUnknownSettingsAreNamed) {
  const TempFolder folder;
  GgufBuilder builder;
  builder.String("general.architecture", "mamba");
  ExpectIoError({"general.architecture must be llama", "got mamba"},
                [&] { GgufSource source(folder.Write("m.gguf", builder.Bytes()), DType::kF32); });
  builder = GgufBuilder();
  builder.String("general.architecture", "llama")
      .U32("llama.block_count", 1)
      .U32("llama.context_length", 64)
      .U32("llama.embedding_length", 4)
      .U32("llama.attention.head_count", 2)
      .U32("llama.strange", 2)
      .Tensor("token_embd.weight", {4, 2}, 0, std::string(32, '\0'));
  EXPECT_EQ(GgufSource(folder.Write("a.gguf", builder.Bytes()), DType::kF32).unknown_settings(),
            std::vector<std::string>{"llama.strange"});
  builder.Tensor("blk.0.surprise.weight", {4}, 0, std::string(16, '\0'));
  ExpectIoError({"every tensor must have a place in a llama model", "\"blk.0.surprise.weight\""},
                [&] { GgufSource source(folder.Write("b.gguf", builder.Bytes()), DType::kF32); });
}

}  // namespace
}  // namespace opst
