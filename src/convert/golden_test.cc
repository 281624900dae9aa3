// Converted tiny checkpoints against logits and greedy continuations that transformers computed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "io/safetensors.h"
#include "opst/convert.h"
#include "opst/model.h"

namespace opst {
namespace {

namespace fs = std::filesystem;

const fs::path kTiny = fs::path(OPST_SOURCE_DIR) / "tests/data/tiny";

// Converts a checkpoint into a folder of its own, removed at the end.
class ConvertedModel {
 public:
  ConvertedModel(const Context& context, const fs::path& source) {
    Convert(context, source.string(), path());
  }
  std::string path() const { return folder_.File("model.opst"); }

 private:
  TempFolder folder_;
};

std::vector<int32_t> Tokens(const SafetensorsFile& golden, std::string_view name) {
  const ConstTensorView view = golden.View(golden.At(name));
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < view.shape().num_elements(); ++i) {
    tokens.push_back(view.dtype() == DType::kI64 ? static_cast<int32_t>(view.as<int64_t>()[i])
                                                 : view.as<int32_t>()[i]);
  }
  return tokens;
}

// Logits [T,V] of a prompt fed in chunks.
std::vector<float> Logits(const Context& context, const Model& model,
                          const std::vector<int32_t>& prompt, size_t chunk) {
  const int64_t vocabulary = model.config().vocab_size;
  Sequence sequence = model.NewSequence(static_cast<int64_t>(prompt.size()));
  sequence.ExpectLength(static_cast<int64_t>(prompt.size()));
  std::vector<float> logits(prompt.size() * static_cast<size_t>(vocabulary));
  for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
    const size_t count = std::min(chunk, prompt.size() - begin);
    model.Forward(context, std::span(prompt).subspan(begin, count), sequence,
                  TensorView(logits.data() + begin * static_cast<size_t>(vocabulary),
                             Shape{static_cast<int64_t>(count), vocabulary}));
  }
  return logits;
}

std::vector<int32_t> GreedyTokens(const Context& context, const Model& model,
                                  const std::vector<int32_t>& prompt, size_t count) {
  std::vector<float> logits(static_cast<size_t>(model.config().vocab_size));
  const TensorView last(logits.data(), Shape{1, model.config().vocab_size});
  Sequence sequence = model.NewSequence(static_cast<int64_t>(prompt.size() + count));
  sequence.ExpectLength(static_cast<int64_t>(prompt.size()));
  model.Forward(context, prompt, sequence, last);
  std::vector<int32_t> tokens;
  while (true) {
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    tokens.push_back(static_cast<int32_t>(best));
    if (tokens.size() == count) return tokens;
    model.Forward(context, std::span(&tokens.back(), 1), sequence, last);
  }
}

class GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  Context context_;
};

TEST_P(GoldenTest, LogitsEqualTransformersWithin1e4OfTheirScale) {
  const ConvertedModel converted(context_, kTiny / GetParam());
  const Model model = Model::Load(context_, converted.path());
  const auto golden = SafetensorsFile::Open((kTiny / GetParam() / "golden.safetensors").string());
  const ConstTensorView expected = golden.View(golden.At("logits"));
  const std::vector<int32_t> prompt = Tokens(golden, "input_ids");
  const std::vector<float> logits = Logits(context_, model, prompt, prompt.size());
  ASSERT_EQ(static_cast<int64_t>(logits.size()), expected.shape().num_elements());
  float scale = 0;
  float worst = 0;
  size_t worst_at = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    scale = std::max(scale, std::fabs(expected.as<float>()[i]));
    const float error = std::fabs(logits[i] - expected.as<float>()[i]);
    if (!(error <= worst)) {
      worst = error;
      worst_at = i;
    }
  }
  EXPECT_LE(worst, 1e-4f * scale) << "at token " << worst_at / size_t(model.config().vocab_size)
                                  << ", id " << worst_at % size_t(model.config().vocab_size);
}

TEST_P(GoldenTest, GreedyContinuationOf64TokensIsTransformersOwn) {
  const ConvertedModel converted(context_, kTiny / GetParam());
  const Model model = Model::Load(context_, converted.path());
  const auto golden = SafetensorsFile::Open((kTiny / GetParam() / "golden.safetensors").string());
  const std::vector<int32_t> expected = Tokens(golden, "greedy");
  ASSERT_EQ(expected.size(), 64u);
  EXPECT_EQ(GreedyTokens(context_, model, Tokens(golden, "input_ids"), expected.size()), expected);
}

TEST_P(GoldenTest, ChunkedPrefillHasTheSameBitsAsWhole) {
  const ConvertedModel converted(context_, kTiny / GetParam());
  const Model model = Model::Load(context_, converted.path());
  const auto golden = SafetensorsFile::Open((kTiny / GetParam() / "golden.safetensors").string());
  const std::vector<int32_t> prompt = Tokens(golden, "input_ids");
  const std::vector<float> whole = Logits(context_, model, prompt, prompt.size());
  const Context one_worker({.num_threads = 1});
  for (const size_t chunk : {1, 2, 5, 16}) {
    EXPECT_EQ(Logits(context_, model, prompt, chunk), whole) << "chunks of " << chunk;
    EXPECT_EQ(Logits(one_worker, model, prompt, chunk), whole) << "1 worker, chunks of " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenTest,
                         testing::Values("mixtral", "mixtral-sharded", "olmoe", "olmoe-clip",
                                         "qwen2-moe", "qwen2-moe-window", "qwen3-moe",
                                         "qwen3-moe-step", "qwen3-moe-bf16", "deepseek-v2-lite",
                                         "deepseek-v2", "deepseek-v3", "gpt-oss", "glm4-moe",
                                         "granite-moe", "ernie4-5-moe", "phimoe", "llama-moe",
                                         "llama-moe-v2", "llama", "llama-dynamic", "qwen2",
                                         "qwen3"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace opst
