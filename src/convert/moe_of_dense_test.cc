// MoE models made of dense ones compute what the dense one computes; and what cannot be made.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/moe_of_dense.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "convert/safetensors_source.h"
#include "convert/testing/checkpoint_copy.h"
#include "convert/testing/sources.h"
#include "io/testing/files.h"
#include "opst/model.h"

namespace opst {
namespace {

using Kind = MoeOfDenseOptions::Kind;
using testing::ExpectError;
using testing::ExpectIoError;
using testing::ReadFloats;

const std::string kTiny = std::string(OPST_SOURCE_DIR) + "/tests/data/tiny/";

// Logits of a fixed text.
std::vector<float> LogitsOf(const Context& context, const std::string& source,
                            const MoeOfDenseOptions& options) {
  const TempFolder folder;
  ConvertOptions convert;
  convert.moe_of_dense = options;
  Convert(context, source, folder.File("m.opst"), convert);
  EXPECT_TRUE(Verify(context, source, folder.File("m.opst"), convert).is_equal);
  const Model model = Model::Load(context, folder.File("m.opst"));
  const std::vector<int32_t> tokens = {5, 17, 79, 4, 63, 28, 11, 77};
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  std::vector<float> logits(tokens.size() * static_cast<size_t>(model.config().vocab_size));
  Sequence sequence = model.NewSequence(num_tokens);
  model.Forward(context, tokens, sequence,
                TensorView(logits.data(), Shape{num_tokens, model.config().vocab_size}));
  return logits;
}

void ExpectSame(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  float scale = 0, worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    scale = std::max(scale, std::fabs(expected[i]));
    worst = std::max(worst, std::fabs(values[i] - expected[i]));
  }
  // The same products in another order of sums: some roundings of f32 a layer.
  EXPECT_LE(worst, 2e-5f * scale);
}

TEST(MoeOfDenseTest, CopiesOfTheFfnGiveTheDenseModelForAnyK) {
  const Context context;
  for (const std::string family : {"llama-dynamic", "qwen3"}) {
    const std::vector<float> dense = LogitsOf(context, kTiny + family, {});
    for (const int64_t k : {1, 2, 3}) {
      SCOPED_TRACE(family);
      ExpectSame(LogitsOf(context, kTiny + family, {Kind::kUpcycle, 3, k}), dense);
    }
  }
}

// The largest E of 2 … 8 that divides the FFN of the tiny Llama.
int64_t SplitOf(const std::string& folder) {
  const SafetensorsSource source(folder, DType::kF32);
  const int64_t ffn =
      testing::TensorNamed(source, "model.layers.0.mlp.gate_proj.weight").tensor->shape[0];
  for (int64_t experts = 8; experts > 1; --experts) {
    if (ffn % experts == 0) return experts;
  }
  return 1;
}

TEST(MoeOfDenseTest, TheMoeReadsNoDefaultAndNoFieldThatTheDenseModelDoesNot) {
  const Context context;
  for (const std::string family : {"llama-dynamic", "qwen3"}) {
    testing::CheckpointCopy copy(family);
    nlohmann::json& config = copy.config();
    for (const char* key : {"rope_parameters", "max_position_embeddings"}) {
      config.erase(key);
    }
    // The family that comes out has rules for all of these, the dense one for none.
    config["scale_factor"] = 3.0;
    config["decoder_sparse_step"] = 2;
    config["mlp_only_layers"] = {0};
    config["score_scale_factor"] = 5.0;
    if (family == "llama-dynamic") config["sliding_window"] = 2;
    const std::vector<float> dense = LogitsOf(context, copy.Write(), {});
    ExpectSame(LogitsOf(context, copy.Write(), {Kind::kUpcycle, 3, 2}), dense);
    if (family == "qwen3") continue;
    const int64_t experts = SplitOf(kTiny + family);
    ExpectSame(LogitsOf(context, copy.Write(), {Kind::kSplit, experts, experts}), dense);
  }
}

TEST(MoeOfDenseTest, AllExpertsOfASplitFfnGiveTheDenseModel) {
  const Context context;
  const int64_t experts = SplitOf(kTiny + "llama-dynamic");
  ASSERT_GT(experts, 1);
  const std::vector<float> dense = LogitsOf(context, kTiny + "llama-dynamic", {});
  ExpectSame(LogitsOf(context, kTiny + "llama-dynamic", {Kind::kSplit, experts, experts}), dense);
}

TEST(MoeOfDenseTest, ASplitDealsOutEveryNeuronOnce) {
  const int64_t experts = SplitOf(kTiny + "llama-dynamic");
  const SafetensorsSource dense(kTiny + "llama-dynamic", DType::kF32);
  const MoeOfDense split(std::make_unique<SafetensorsSource>(kTiny + "llama-dynamic", DType::kF32),
                         {Kind::kSplit, experts, 1});
  const std::string layer = "model.layers.1.mlp.";
  std::vector<float> gate;
  const int64_t hidden = testing::TensorNamed(dense, layer + "gate_proj.weight").tensor->shape[1];
  std::vector<std::vector<float>> down;
  for (int64_t e = 0; e < experts; ++e) {
    const std::string prefix = layer + "calculator.experts.weight_";
    const auto rows = ReadFloats(split, prefix + "gate." + std::to_string(e));
    gate.insert(gate.end(), rows.begin(), rows.end());
    down.push_back(ReadFloats(split, prefix + "down." + std::to_string(e)));
  }
  EXPECT_EQ(gate, ReadFloats(dense, layer + "gate_proj.weight"));
  std::vector<float> joined;
  for (int64_t h = 0; h < hidden; ++h) {
    for (const std::vector<float>& part : down) {
      const auto width = static_cast<std::ptrdiff_t>(part.size()) / hidden;
      joined.insert(joined.end(), part.begin() + h * width, part.begin() + (h + 1) * width);
    }
  }
  EXPECT_EQ(joined, ReadFloats(dense, layer + "down_proj.weight"));
}

TEST(MoeOfDenseTest, WhatCannotBeMadeIsRefused) {
  const auto make = [](const std::string& family, const MoeOfDenseOptions& options) {
    return MoeOfDense(std::make_unique<SafetensorsSource>(kTiny + family, DType::kF32), options);
  };
  ExpectError(ErrorKind::kInvalidArgument, {"k must be 1 to the number of experts", "4 of 3"}, [&] {
    make("llama-dynamic", {Kind::kUpcycle, 3, 4});
  });
  ExpectError(ErrorKind::kInvalidArgument, {"experts of a dense model must be 1"}, [&] {
    make("llama-dynamic", {Kind::kUpcycle, 0, 0});
  });
  ExpectIoError({"only a llama or qwen3 model can be upcycled", "got mixtral"}, [&] {
    make("mixtral", {Kind::kUpcycle, 2, 1});
  });
  ExpectIoError({"only a llama model can be split", "got qwen3"}, [&] {
    make("qwen3", {Kind::kSplit, 2, 1});
  });
  ExpectIoError({"attention_bias", "true"}, [&] { make("llama", {Kind::kUpcycle, 2, 1}); });
  ExpectIoError({"must divide intermediate_size"}, [&] {
    make("llama-dynamic", {Kind::kSplit, 60013, 1});
  });
}

}  // namespace
}  // namespace opst
