// Experts of MXFP4 checkpoints stay as they are: the packed values are those of the source, and the
// rest of the file is that of an expanded one.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "convert/testing/checkpoint_copy.h"
#include "model/packed_model.h"
#include "opst/convert.h"

namespace opst {
namespace {

using testing::CheckpointCopy;
using testing::TensorCopy;

std::vector<std::byte> RandomBytes(int64_t count, int least, int most, std::mt19937& random) {
  std::uniform_int_distribution<int> byte(least, most);
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (std::byte& value : bytes) value = static_cast<std::byte>(byte(random));
  return bytes;
}

// gpt-oss with H = F = 32, so that a row is one group, and its experts as published ones have them.
void MakeMxfp4(CheckpointCopy& copy) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<TensorCopy> tensors;
  for (const TensorCopy& tensor : copy.tensors()) {
    const std::string& name = tensor.declaration.name;
    const bool is_gate_up = name.find("gate_up_proj") != std::string::npos;
    std::vector<int64_t> shape = tensor.declaration.shape;
    for (int64_t& extent : shape) {
      if (extent == 30) extent = 32;
      if (extent == 60 && is_gate_up) extent = 64;
    }
    if (name.ends_with("gate_up_proj") || name.ends_with("down_proj")) {
      const std::vector<int64_t> groups{shape[0], shape[2], shape[1] / 32};
      const int64_t count = groups[0] * groups[1] * groups[2];
      tensors.push_back({{name + "_blocks", "U8", {groups[0], groups[1], groups[2], 16}},
                         RandomBytes(16 * count, 0, 255, random)});
      tensors.push_back({{name + "_scales", "U8", groups}, RandomBytes(count, 118, 126, random)});
      continue;
    }
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    const auto bytes = std::as_bytes(std::span(values));
    tensors.push_back({{name, "F32", shape}, {bytes.begin(), bytes.end()}});
  }
  copy.tensors() = std::move(tensors);
  copy.config()["hidden_size"] = 32;
  copy.config()["intermediate_size"] = 32;
  copy.config()["quantization_config"] = {{"quant_method", "mxfp4"}};
}

// The values of experts are equal, and the bytes of all other tensors.
void ExpectSameModel(const std::string& kept_path, const std::string& expanded_path) {
  const auto kept = PackedModel::Open(kept_path, {});
  const auto expanded = PackedModel::Open(expanded_path, {});
  const auto kept_file = SafetensorsFile::Open(kept_path);
  const auto expanded_file = SafetensorsFile::Open(expanded_path);
  int num_experts = 0;
  for (const SafetensorsTensor& tensor : kept_file.tensors()) {
    if (!tensor.name.ends_with("moe.gate_up") && !tensor.name.ends_with("moe.down")) {
      const auto a = kept_file.Bytes(tensor);
      const auto b = expanded_file.Bytes(expanded_file.At(tensor.name));
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << tensor.name;
      continue;
    }
    const Role role = tensor.name.ends_with("down") ? Role::kDown : Role::kGateUp;
    const int64_t layer = tensor.name[std::strlen("layers.")] - '0';
    const PackedWeights mxfp4 = kept->Panels(role, layer);
    const PackedWeights bf16 = expanded->Panels(role, layer);
    ASSERT_EQ(mxfp4.layout().format, WeightFormat::kMxfp4);
    ASSERT_EQ(bf16.layout().format, WeightFormat::kBf16);
    for (int64_t expert = 0; expert < mxfp4.num_experts(); ++expert, ++num_experts) {
      for (int64_t row = 0; row < mxfp4.layout().out; ++row) {
        for (int64_t k = 0; k < 32; ++k) {
          ASSERT_EQ(mxfp4.At(expert, row, k), bf16.At(expert, row, k))
              << tensor.name << " [" << expert << "," << row << "," << k << "]";
        }
      }
    }
  }
  EXPECT_EQ(num_experts, 2 * 2 * 5);
}

TEST(Mxfp4Test, ExpertsOfMxfp4CheckpointsStayAsTheyAre) {
  const Context context;
  CheckpointCopy copy("gpt-oss");
  MakeMxfp4(copy);
  const std::string source = copy.Write();
  const std::string expanded = copy.output() + ".expanded";
  const ConvertReport report = Convert(context, source, copy.output());
  ASSERT_EQ(report.rounded.size(), 2u * 2u);
  for (const RoundedTensor& tensor : report.rounded) {
    EXPECT_EQ(tensor.relative_error, 0) << tensor.name;
  }
  EXPECT_TRUE(Convert(context, source, expanded, {.expands_mxfp4 = true}).rounded.empty());
  ExpectSameModel(copy.output(), expanded);
  EXPECT_TRUE(Verify(context, source, copy.output(), {}).is_equal);
  EXPECT_TRUE(Verify(context, source, expanded, {.expands_mxfp4 = true}).is_equal);
}

// Rounding to mxfp4 what holds such values already changes nothing.
TEST(Mxfp4Test, RoundingExpandedExpertsGivesThemBack) {
  const Context context;
  CheckpointCopy copy("gpt-oss");
  MakeMxfp4(copy);
  const std::string source = copy.Write();
  const std::string rounded = copy.output() + ".rounded";
  Convert(context, source, copy.output());
  Convert(context, source, rounded, {.quantized = WeightType(WeightFormat::kMxfp4)});
  const auto kept = SafetensorsFile::Open(copy.output());
  const auto again = SafetensorsFile::Open(rounded);
  for (const SafetensorsTensor& tensor : kept.tensors()) {
    const auto a = kept.Bytes(tensor);
    const auto b = again.Bytes(again.At(tensor.name));
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << tensor.name;
  }
}

}  // namespace
}  // namespace opst
