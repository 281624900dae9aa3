// The plain evaluation against transformers' own outputs, and what verification finds.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/testing/errors.h"
#include "convert/open_source.h"
#include "convert/plain_model.h"
#include "convert/source_map.h"
#include "convert/testing/checkpoint_copy.h"
#include "io/safetensors.h"
#include "io/testing/files.h"
#include "model/family.h"
#include "model/packed_model.h"
#include "opst/convert.h"

namespace opst {
namespace {

using testing::CheckpointCopy;
using ::testing::HasSubstr;

namespace fs = std::filesystem;
const fs::path kTiny = fs::path(OPST_SOURCE_DIR) / "tests/data/tiny";

// Every folder of tests/data/tiny: a new family is covered by being there.
std::vector<std::string> TinyFolders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kTiny)) {
    if (fs::exists(entry.path() / "golden.safetensors")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class TinyModel : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, TinyModel, ::testing::ValuesIn(TinyFolders()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(TinyModel, ThePlainEvaluationGivesTheReferencesLogits) {
  const auto source = OpenSource((kTiny / GetParam()).string(), {});
  const ModelConfig config = ReadModelConfig(source->config_json(), source->config_path());
  const SourceMap sources(*source, FindFamily(config.family, source->config_path()), config);
  const auto golden = SafetensorsFile::Open((kTiny / GetParam() / "golden.safetensors").string());
  const ConstTensorView ids = golden.View(golden.At("input_ids"));
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < ids.shape().num_elements(); ++i) {
    tokens.push_back(static_cast<int32_t>(ids.as<int64_t>()[i]));
  }
  const PlainMatrix logits = PlainModel(*source, sources, config).Evaluate(tokens);
  const ConstTensorView expected = golden.View(golden.At("logits"));
  ASSERT_EQ(static_cast<int64_t>(logits.values.size()), expected.shape().num_elements());
  double scale = 0, worst = 0;
  for (size_t i = 0; i < logits.values.size(); ++i) {
    const auto value = static_cast<double>(expected.as<float>()[i]);
    scale = std::max(scale, std::fabs(value));
    worst = std::max(worst, std::fabs(logits.values[i] - value));
  }
  EXPECT_LE(worst, 1e-4 * scale);
}

TEST_P(TinyModel, VerifiesAndGoesBackToTheSameTensors) {
  const Context context;
  const TempFolder temporary;
  const std::string packed = temporary.File("m.opst");
  const std::string source = (kTiny / GetParam()).string();
  const ConvertReport converted = Convert(context, source, packed);
  const VerifyReport report = Verify(context, source, packed);
  EXPECT_TRUE(report.is_equal) << report.max_error;
  EXPECT_LT(report.max_error, 1e-4);
  EXPECT_EQ(report.first_diverging_layer, -1);

  const std::string folder = temporary.File("back");
  ExportToHuggingFace(packed, folder);
  const auto before = ShardedCheckpoint::Open(source);
  const auto after = ShardedCheckpoint::Open(folder);
  EXPECT_EQ(after.tensors().size() + converted.unused_tensors.size(), before.tensors().size());
  for (const SourceTensor& tensor : after.tensors()) {
    const SourceTensor* old = before.Find(tensor.name());
    ASSERT_NE(old, nullptr) << tensor.name();
    EXPECT_EQ(tensor.tensor->dtype, old->tensor->dtype);
    EXPECT_EQ(tensor.tensor->shape, old->tensor->shape) << tensor.name();
    const auto a = before.Read(*old), b = after.Read(tensor);
    EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()))
        << tensor.name();
  }
  // What comes back is a checkpoint: it converts to the same file.
  Convert(context, folder, temporary.File("2.opst"));
  const auto first = PackedModel::Open(packed, LoadMode::kMap);
  const auto second = PackedModel::Open(temporary.File("2.opst"), LoadMode::kMap);
  EXPECT_EQ(first->config().ToJson(), second->config().ToJson());
  for (const PackedTensor& tensor : PackedTensors(first->config())) {
    const std::string key = std::string(kChecksumPrefix) + tensor.name();
    EXPECT_EQ(first->file().metadata().at(key), second->file().metadata().at(key)) << key;
  }
}

TEST(VerifyTest, FindsOneAlteredWeightAndItsLayer) {
  const Context context;
  const CheckpointCopy copy("mixtral");
  const std::string source = copy.Write();
  Convert(context, source, copy.output());
  std::string bytes = ReadWholeFile(copy.output(), 1 << 24);
  {
    const auto file = SafetensorsFile::Open(copy.output());
    const uint64_t at = file.FileOffset(file.At("layers.1.attention.qkv"));
    const float wrong = 30;
    bytes.replace(at + 64, sizeof(wrong), reinterpret_cast<const char*>(&wrong), sizeof(wrong));
  }
  std::ofstream(copy.output(), std::ios::binary) << bytes;
  const VerifyReport report = Verify(context, source, copy.output());
  EXPECT_FALSE(report.is_equal);
  EXPECT_EQ(report.first_diverging_layer, 1);
  EXPECT_LT(report.layer_errors[0], 1e-5);
}

TEST(VerifyTest, AFileOfAnotherModelIsRefused) {
  const Context context;
  const CheckpointCopy copy("mixtral");
  Convert(context, copy.Write(), copy.output());
  EXPECT_THAT(IoError([&] { Verify(context, (kTiny / "olmoe").string(), copy.output()); }),
              HasSubstr("must have the recipe of the source"));
}

TEST(ExportTest, RefusesAFolderThatExistsAndAFileThatIsNoPackedModel) {
  const Context context;
  const CheckpointCopy copy("olmoe");
  const std::string source = copy.Write();
  Convert(context, source, copy.output());
  EXPECT_THROW(ExportToHuggingFace(copy.output(), source), Error);
  EXPECT_THROW(ExportToHuggingFace(source + "/model.safetensors", copy.output() + "-x"), Error);
}

}  // namespace
}  // namespace opst
