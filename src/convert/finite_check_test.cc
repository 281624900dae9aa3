// Weights that are no finite numbers are found wherever they stand, in every type of source.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/finite_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/errors.h"
#include "convert/safetensors_source.h"
#include "convert/testing/checkpoint_copy.h"
#include "convert/testing/sources.h"
#include "io/safetensors_dtype.h"
#include "kernels/rows.h"
#include "opst/convert.h"

namespace opst {
namespace {

using testing::CheckpointCopy;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(FiniteCheckTest, NamesTheFirstOneOfAnyTypeAtAnyPlace) {
  const SafetensorsTensor tensor{"w", "F32", {100, 3, 1000}, 0, 0};
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const float largest = dtype == DType::kF16 ? 65504.0f : 3.3e38f;
    for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, size_t{8200}}) {
      std::vector<float> values(8201, -largest);
      std::vector<std::byte> bytes(values.size() * ByteSize(dtype));
      ConvertFromFloat(values.data(), values.size(), dtype, bytes.data());
      CheckFinite("f", tensor, dtype, 2000, bytes);
      for (const float value : {kNan, kInfinity, -kInfinity}) {
        ConvertFromFloat(&value, 1, dtype, bytes.data() + at * ByteSize(dtype));
        const size_t index = 2000 + at;
        const std::string place = std::to_string(index / 3000) + "," +
                                  std::to_string(index / 1000 % 3) + "," +
                                  std::to_string(index % 1000);
        EXPECT_THAT(IoError([&] { CheckFinite("f", tensor, dtype, 2000, bytes); }),
                    HasSubstr("[f] weights must be finite numbers; got \"w\"[" + place + "] = "));
      }
    }
  }
}

// Every tensor of a checkpoint, also those that are copied or gathered and not packed.
TEST(FiniteCheckTest, AConversionFindsOneInEveryTensor) {
  const Context context;
  for (const char* family : {"mixtral", "qwen3-moe-bf16", "gpt-oss", "deepseek-v3"}) {
    CheckpointCopy copy(family);
    for (size_t i = 0; i < copy.tensors().size(); ++i) {
      const testing::TensorCopy good = copy.tensors()[i];
      const DType dtype = *DTypeFromSafetensors(good.declaration.dtype);
      std::byte* last =
          copy.tensors()[i].bytes.data() + copy.tensors()[i].bytes.size() - ByteSize(dtype);
      ConvertFromFloat(&kInfinity, 1, dtype, last);
      const std::string& name = good.declaration.name;
      const auto convert = [&] {
        const ConvertReport report =
            Convert(context, copy.Write(), copy.output(), {.overwrites = true});
        const auto& unused = report.unused_tensors;
        if (std::find(unused.begin(), unused.end(), name) != unused.end()) {
          ThrowIo(name, "is not read", "");
        }
      };
      EXPECT_THAT(IoError(convert), HasSubstr(name)) << family;
      copy.tensors()[i] = good;
    }
  }
}

TEST(FiniteCheckTest, NumbersBeyondF16AreNamedWhenTheyAreExpandedToIt) {
  const std::string source = std::string(OPST_SOURCE_DIR) + "/tests/data/quantised/fp8";
  const TempFolder folder;
  const auto file = SafetensorsFile::Open(source + "/model.safetensors");
  std::vector<SafetensorsDeclaration> declarations;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    declarations.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  SafetensorsWriter writer(folder.File("model.safetensors"), declarations, {}, {.alignment = 1});
  for (const SafetensorsTensor& tensor : file.tensors()) {
    const auto bytes = file.Bytes(tensor);
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    if (tensor.name == "a.weight_scale_inv") {
      const float scale = 1e30f;
      std::memcpy(copy.data(), &scale, sizeof scale);
    }
    writer.Append(tensor.name, copy);
  }
  writer.Finish();
  folder.Write("config.json", ReadWholeFile(source + "/config.json", 1 << 20));
  const auto read = [&](DType dtype) {
    const SafetensorsSource opened(folder.path(), dtype);
    (void)opened.Read(testing::TensorNamed(opened, "a.weight"));
  };
  EXPECT_THAT(IoError([&] { read(DType::kF16); }),
              HasSubstr("weights must fit f16; --weights bf16 and f32 hold larger numbers; got "
                        "\"a.weight\"["));
  read(DType::kBf16);
  read(DType::kF32);
}

}  // namespace
}  // namespace opst
