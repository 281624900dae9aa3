// Quantised Hugging Face checkpoints against the plain tensors they stand for, and what is refused.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/safetensors_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "convert/testing/sources.h"
#include "io/safetensors_writer.h"
#include "io/testing/files.h"

namespace opst {
namespace {

using testing::ExpectIoError;
using testing::FloatsOf;
using testing::ReadFloats;
using testing::TensorNamed;

const std::string kQuantised = std::string(OPST_SOURCE_DIR) + "/tests/data/quantised/";

class QuantisedSource : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, QuantisedSource,
                         ::testing::Values("fp8", "mxfp4", "gptq", "gptq-unordered",
                                           "gptq-short-group", "awq", "awq-short-group"),
                         [](const auto& method) {
                           std::string name = method.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(QuantisedSource, TensorsAreThePlainOnes) {
  const SafetensorsSource source(kQuantised + GetParam(), DType::kF32);
  const auto expected = SafetensorsFile::Open(kQuantised + GetParam() + "/expected.safetensors");
  EXPECT_EQ(source.tensors().size(), expected.tensors().size());
  EXPECT_EQ(source.config_json().find("quantization_config"), std::string::npos);
  for (const SafetensorsTensor& tensor : expected.tensors()) {
    const SourceTensor* found = source.Find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->tensor->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(ReadFloats(source, tensor.name), FloatsOf("F32", expected.Bytes(tensor)))
        << tensor.name;
  }
}

TEST_P(QuantisedSource, AnyPieceIsThePieceOfTheWhole) {
  const SafetensorsSource source(kQuantised + GetParam(), DType::kBf16);
  for (const SourceTensor& tensor : source.tensors()) {
    const uint64_t num_bytes = tensor.tensor->num_bytes;
    const auto all = source.Read(tensor);
    for (uint64_t begin = 0; begin < num_bytes; begin += 26) {
      for (const uint64_t count : {uint64_t{2}, uint64_t{34}, uint64_t{300}}) {
        if (begin + count > num_bytes) continue;
        const auto piece = source.Read(tensor, begin, count);
        EXPECT_TRUE(std::equal(piece.bytes().begin(), piece.bytes().end(),
                               all.bytes().begin() + static_cast<std::ptrdiff_t>(begin)))
            << tensor.name() << " at " << begin;
      }
    }
  }
}

TEST_P(QuantisedSource, ExpandsToTheTypeAskedFor) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const SafetensorsSource source(kQuantised + GetParam(), dtype);
    const auto is_of_type = [&](const SourceTensor& tensor) {
      return tensor.tensor->dtype == SafetensorsSpelling(dtype);
    };
    EXPECT_TRUE(std::any_of(source.tensors().begin(), source.tensors().end(), is_of_type));
  }
}

class QuantisedErrors : public ::testing::Test {
 protected:
  // A copy of a checkpoint without `dropped`, with `config` replaced when given.
  std::string Copy(const std::string& name, std::string_view dropped, std::string config = "") {
    const auto file = SafetensorsFile::Open(kQuantised + name + "/model.safetensors");
    std::vector<SafetensorsDeclaration> kept;
    for (const SafetensorsTensor& tensor : file.tensors()) {
      if (tensor.name != dropped) kept.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
    SafetensorsWriter writer(folder_.File("model.safetensors"), kept, {},
                             {.if_exists = IfExists::kReplace, .alignment = 1});
    for (const auto& each : kept) writer.Append(each.name, file.Bytes(file.At(each.name)));
    writer.Finish();
    if (config.empty()) config = ReadWholeFile(kQuantised + name + "/config.json", 1 << 20);
    folder_.Write("config.json", config);
    return folder_.path();
  }

  TempFolder folder_;
};

TEST_F(QuantisedErrors, AMissingPartIsNamed) {
  const auto open = [&](const std::string& name, std::string_view dropped) {
    const SafetensorsSource source(Copy(name, dropped), DType::kBf16);
  };
  ExpectIoError({"must have the tensor a.weight_scale_inv"},
                [&] { open("fp8", "a.weight_scale_inv"); });
  ExpectIoError({"mlp.experts.down_proj_scales"},
                [&] { open("mxfp4", "mlp.experts.down_proj_scales"); });
  ExpectIoError({"q_proj.qzeros"}, [&] { open("gptq", "q_proj.qzeros"); });
  ExpectIoError({"q_proj.scales"}, [&] { open("awq", "q_proj.scales"); });
}

TEST_F(QuantisedErrors, OtherMethodsAndWidthsAreRefusedByName) {
  const auto refuse = [&](std::string_view json, std::initializer_list<std::string_view> parts) {
    const std::string config =
        R"({"model_type":"test","quantization_config":)" + std::string(json) + "}";
    ExpectIoError(parts, [&] { SafetensorsSource source(Copy("gptq", "", config), DType::kF32); });
  };
  refuse(R"({"quant_method":"bitsandbytes"})", {"quant_method", "fp8, mxfp4, gptq or awq"});
  refuse(R"({"quant_method":"gptq","bits":8})", {"bits", "8"});
  refuse(R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})", {"marlin"});
  refuse(R"({"quant_method":"awq","bits":4,"version":"gemv"})", {"version", "gemv"});
  refuse(R"({"quant_method":"fp8"})", {"weight_block_size"});
  refuse(R"({"bits":4})", {"quant_method"});
}

TEST_F(QuantisedErrors, GroupsAreThoseOfTheConfig) {
  const auto refuse = [&](const std::string& name, std::string_view dropped, std::string_view json,
                          std::initializer_list<std::string_view> parts) {
    const std::string config =
        R"({"model_type":"test","quantization_config":)" + std::string(json) + "}";
    ExpectIoError(parts,
                  [&] { SafetensorsSource source(Copy(name, dropped, config), DType::kF32); });
  };
  refuse("gptq-unordered", "", R"({"quant_method":"gptq","bits":4,"group_size":24})",
         {"a row for each group of group_size (24) inputs, 2", "\"q_proj.scales\" F16 [3,24]"});
  refuse("awq", "", R"({"quant_method":"awq","bits":4,"group_size":-1})",
         {"group_size (-1) inputs, 1", "\"q_proj.scales\" F16 [2,24]"});
  refuse("gptq", "", R"({"quant_method":"gptq","bits":4})", {"group_size", "must be given"});
  refuse("awq", "", R"({"quant_method":"awq","bits":4,"group_size":0})", {"group_size", "got 0"});
  refuse("awq", "", R"({"quant_method":"awq","w_bit":8,"q_group_size":16})", {"w_bit", "8"});
  // Without their order, groups of desc_act are not known.
  refuse("gptq", "q_proj.g_idx",
         R"({"quant_method":"gptq","bits":4,"group_size":16,"desc_act":true})",
         {"with desc_act the checkpoint must have the tensor q_proj.g_idx"});
}

TEST_F(QuantisedErrors, AGroupOutOfRangeIsFoundWhileReading) {
  const std::string path = Copy("gptq", "");
  std::string bytes = ReadWholeFile(folder_.File("model.safetensors"), 1 << 20);
  const auto file = SafetensorsFile::Open(folder_.File("model.safetensors"));
  bytes[file.FileOffset(file.At("q_proj.g_idx")) + 4 * 5] = 9;
  folder_.Write("model.safetensors", bytes);
  const SafetensorsSource source(path, DType::kF32);
  ExpectIoError({"groups must be 0 to 2", "q_proj.g_idx[5] = 9"},
                [&] { source.Read(TensorNamed(source, "q_proj.weight")); });
}

}  // namespace
}  // namespace opst
