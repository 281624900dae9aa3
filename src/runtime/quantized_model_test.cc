// The bundled model with integer weights: what becomes integers, what that costs, and that answers
// stay the same for any batch, chunking and number of workers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "base/testing/errors.h"
#include "io/file.h"
#include "model/packed_model.h"
#include "runtime/testing/bundled_model.h"

namespace opst {
namespace {

using testing::BundledModel;
using ::testing::HasSubstr;
using testing::kBundledSource;

struct QuantizedModel {
  explicit QuantizedModel(WeightType type)
      : report(Convert(context, kBundledSource.string(), path(), {.quantized = type})) {}
  std::string path() const { return folder.File("model.opst"); }

  Context context;
  TempFolder folder;
  ConvertReport report;
};

double HeldOutNll(const Context& context, const Engine& engine) {
  const std::string text = ReadWholeFile((kBundledSource / "heldout.txt").string(), 1e7);
  const auto tokens = engine.tokenizer().Encode(text, {.add_special_tokens = false});
  return engine.Perplexity(context, {tokens.data(), 4096}, {.window = 256}).nll;
}

TEST(QuantizedModelTest, OnlyMatricesOfTheLayersBecomeIntegers) {
  const QuantizedModel model({WeightFormat::kInt4, 64});
  const auto packed = PackedModel::Open(model.path(), LoadMode::kMap);
  packed->CheckChecksums();
  std::map<std::string, int> dtypes;
  for (const PackedTensor& tensor : PackedTensors(packed->config())) {
    const std::string& dtype = packed->file().At(tensor.name()).dtype;
    ++dtypes[dtype];
    const bool is_router = tensor.role == Role::kRouter;
    const bool is_head = tensor.role == Role::kHead;
    EXPECT_EQ(dtype == "U8", tensor.storage == Storage::kPanels && !is_router && !is_head)
        << tensor.name();
  }
  EXPECT_EQ(dtypes["U8"], 4 * 4) << "qkv, out, gate_up and down of four layers";
}

// Against the weights of the float model, element by element.
TEST(QuantizedModelTest, TheReportSaysWhatEveryTensorLost) {
  const QuantizedModel model({WeightFormat::kInt4, 64});
  const auto packed = PackedModel::Open(model.path(), LoadMode::kMap);
  const auto exact = PackedModel::Open(BundledModel::Get().path(), LoadMode::kMap);
  ASSERT_EQ(model.report.rounded.size(), 4u * 4u);
  size_t next = 0;
  for (const PackedTensor& tensor : PackedTensors(packed->config())) {
    if (packed->file().At(tensor.name()).dtype != "U8") continue;
    const PackedWeights held = packed->Panels(tensor.role, tensor.layer);
    const PackedWeights weights = exact->Panels(tensor.role, tensor.layer);
    double squares = 0;
    double error_squares = 0;
    for (int64_t expert = 0; expert < held.num_experts(); ++expert) {
      for (int64_t row = 0; row < held.layout().out; ++row) {
        for (int64_t k = 0; k < held.layout().in; ++k) {
          const double weight = weights.At(expert, row, k);
          const double error = held.At(expert, row, k) - weight;
          squares += weight * weight;
          error_squares += error * error;
        }
      }
    }
    const RoundedTensor& got = model.report.rounded[next++];
    EXPECT_EQ(got.name, tensor.name());
    const double expected = std::sqrt(error_squares / squares);
    EXPECT_NEAR(got.relative_error, expected, 1e-9 * expected) << tensor.name();
    EXPECT_GT(got.relative_error, 0.02);
  }
}

TEST(QuantizedModelTest, PerplexityRisesByNoMoreThanItsFormatMayCost) {
  const double exact = HeldOutNll(BundledModel::Get().context, BundledModel::Get().engine);
  for (const auto& [type, most] : {std::pair<WeightType, double>{WeightFormat::kInt8, 0.001},
                                   {WeightFormat::kInt4, 0.03},
                                   {WeightType(WeightFormat::kInt4, 128), 0.05}}) {
    const QuantizedModel model(type);
    for (const char* act : {"int16", "int8", "f32"}) {
      const Context context({.settings = {{"act", act}}});
      const double nll = HeldOutNll(context, Engine::Load(context, model.path()));
      EXPECT_LE(std::exp(nll - exact), 1 + most) << type.ToString() << ", act " << act;
    }
  }
}

TEST(QuantizedModelTest, GreedyTextIsTheSameForAnyChunkingBatchAndThreads) {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    const QuantizedModel model(format);
    const Engine engine = Engine::Load(model.context, model.path());
    GenerateOptions options{.max_new_tokens = 40};
    const std::string prompt = "It is a truth universally acknowledged, that a single man in";
    const std::string whole = engine.Generate(model.context, prompt, options).text;
    const std::vector<std::string> prompts = {"She was", prompt, "And God said"};
    EXPECT_EQ(engine.GenerateBatch(model.context, prompts, options)[1].text, whole);
    options.prefill_chunk = 3;
    EXPECT_EQ(engine.Generate(Context({.num_threads = 1}), prompt, options).text, whole);
  }
}

TEST(QuantizedModelTest, IntegersNeitherGoBackNorAreVerified) {
  const QuantizedModel model(WeightFormat::kInt8);
  EXPECT_THAT(IoError([&] { ExportToHuggingFace(model.path(), model.folder.File("back")); }),
              HasSubstr("only float weights go back to a Hugging Face folder"));
  const ConvertOptions options{.quantized = WeightType(WeightFormat::kInt8)};
  EXPECT_THAT(Rejection([&] {
                (void)Verify(model.context, kBundledSource.string(), model.path(), options);
              }),
              HasSubstr("compare perplexities instead; got int8 in groups of 32"));
}

}  // namespace
}  // namespace opst
