// Tests of opening safetensors files: files made by transformers, truncation at every byte, random
// damage.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <random>

#include "io/testing/files.h"

namespace opst {
namespace {

using testing::ExpectIoError;
using testing::RawSafetensors;

const std::string kTiny = std::string(OPST_SOURCE_DIR) + "/tests/data/tiny/";

// Two tensors, 10 bytes of data.
std::string SmallFile() {
  return RawSafetensors(
      "{\"__metadata__\":{\"k\":\"v\"},"
      "\"b\":{\"dtype\":\"I16\",\"shape\":[3],\"data_offsets\":[4,10]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]}}",
      std::string_view("\1\2\3\4\5\0\6\0\7\0", 10));
}

TEST(SafetensorsFileTest, GivesNamesTypesAndBytes) {
  const TempFolder folder;
  for (const LoadMode mode : {LoadMode::kMap, LoadMode::kRead}) {
    const SafetensorsFile file =
        SafetensorsFile::Open(folder.Write("m.safetensors", SmallFile()), mode);
    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.tensors()[0].name, "a");
    EXPECT_EQ(file.metadata().at("k"), "v");
    EXPECT_EQ(file.Bytes(file.At("a")).size(), 4u);
    EXPECT_EQ(file.Bytes(file.At("a"))[3], std::byte{4});
    EXPECT_EQ(file.Bytes(file.At("b"))[0], std::byte{5});
    EXPECT_EQ(file.FileOffset(file.At("b")) + 6, file.file().size());
    EXPECT_EQ(file.Find("c"), nullptr);
    ExpectIoError({"m.safetensors", "\"c\""}, [&] { file.At("c"); });
  }
}

TEST(SafetensorsFileTest, ReadsWhatTransformersWrote) {
  const SafetensorsFile file = SafetensorsFile::Open(kTiny + "qwen3-moe/golden.safetensors");
  const ConstTensorView ids = file.View(file.At("input_ids"));
  const ConstTensorView logits = file.View(file.At("logits"));
  const ConstTensorView greedy = file.View(file.At("greedy"));
  EXPECT_EQ(ids.dtype(), DType::kI64);
  EXPECT_EQ(ids.shape(), (Shape{1, 24}));
  EXPECT_EQ(logits.dtype(), DType::kF32);
  EXPECT_EQ(logits.shape(), (Shape{24, 160}));
  // The first greedy token is the best one after the prompt.
  const auto* row = reinterpret_cast<const float*>(logits.row(23));
  EXPECT_EQ(std::max_element(row, row + 160) - row, greedy.as<int64_t>()[0]);
  EXPECT_TRUE(file.metadata().at("made_by").starts_with("transformers "));
}

TEST(SafetensorsFileTest, RefusesEveryTruncation) {
  const TempFolder folder;
  const std::string whole = SmallFile();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string path = folder.Write("m.safetensors", whole.substr(0, size));
    ExpectIoError({path}, [&] { SafetensorsFile::Open(path); });
    ExpectIoError({path}, [&] { SafetensorsFile::Open(path, LoadMode::kRead); });
  }
  SafetensorsFile::Open(folder.Write("m.safetensors", whole));
  ExpectIoError({"as long as its header says", "11 bytes", "need 10"},
                [&] { SafetensorsFile::Open(folder.Write("m.safetensors", whole + "x")); });
}

TEST(SafetensorsFileTest, NamesTheSizesOfATruncatedCheckpoint) {
  const TempFolder folder;
  const std::string path = folder.File("model.safetensors");
  std::filesystem::copy(kTiny + "olmoe/model.safetensors", path);
  const uint64_t size = std::filesystem::file_size(path);
  for (const uint64_t missing : {uint64_t{1}, uint64_t{4096}, size / 4}) {
    std::filesystem::resize_file(path, size - missing);
    ExpectIoError({path, "as long as its header says", "truncated"},
                  [&] { SafetensorsFile::Open(path); });
  }
}

TEST(SafetensorsFileTest, RefusesAbsurdHeaderLengths) {
  const TempFolder folder;
  const auto open = [&](std::string_view length) {
    SafetensorsFile::Open(folder.Write("m.safetensors", std::string(length) + "{}"));
  };
  using std::string_view_literals::operator""sv;
  open("\2\0\0\0\0\0\0\0"sv);
  ExpectIoError({"18446744073709551615"}, [&] { open("\xff\xff\xff\xff\xff\xff\xff\xff"sv); });
  ExpectIoError({"at most 100000000", "100000001"}, [&] { open("\x01\xe1\xf5\x05\0\0\0\0"sv); });
  ExpectIoError({"inside the file", "100000000"}, [&] { open("\x00\xe1\xf5\x05\0\0\0\0"sv); });
  ExpectIoError({"inside the file", "3 bytes of header", "10 bytes"},
                [&] { open("\3\0\0\0\0\0\0\0"sv); });
  ExpectIoError({"begin with {"}, [&] { open("\0\0\0\0\0\0\0\0"sv); });
}

TEST(SafetensorsFileTest, ViewRefusesWhatOurTensorsCannotBe) {
  const TempFolder folder;
  const SafetensorsFile file = SafetensorsFile::Open(folder.Write(
      "m.safetensors",
      RawSafetensors("{\"f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]},"
                     "\"odd\":{\"dtype\":\"F4\",\"shape\":[1,1,1,1,2],\"data_offsets\":[1,2]},"
                     "\"deep\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1],\"data_offsets\":[2,3]},"
                     "\"new\":{\"dtype\":\"F3_X\",\"shape\":[1],\"data_offsets\":[3,4]},"
                     "\"ok\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1],\"data_offsets\":[4,5]}}",
                     "12345")));
  ExpectIoError({"dtype", "\"f8\" F8_E4M3 [1]"}, [&] { file.View(file.At("f8")); });
  ExpectIoError({"dtype", "\"new\" F3_X [1]"}, [&] { file.View(file.At("new")); });
  ExpectIoError({"four dimensions", "\"deep\""}, [&] { file.View(file.At("deep")); });
  EXPECT_EQ(file.View(file.At("ok")).as<uint8_t>()[0], '5');
  EXPECT_EQ(file.Bytes(file.At("new"))[0], std::byte{'4'});
}

TEST(SafetensorsFileTest, ViewRefusesMisalignedElements) {
  const TempFolder folder;
  const auto open = [&](std::string padding) {
    return SafetensorsFile::Open(folder.Write(
        "m.safetensors",
        RawSafetensors("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}" + padding,
                       "1234")));
  };
  int num_refused = 0;
  for (int spaces = 0; spaces < 4; ++spaces) {
    const SafetensorsFile file = open(std::string(static_cast<size_t>(spaces), ' '));
    if (file.FileOffset(file.At("x")) % 4 == 0) {
      EXPECT_EQ(file.View(file.At("x")).num_bytes(), 4u);
    } else {
      ExpectIoError({"multiple of their element size", "\"x\""}, [&] { file.View(file.At("x")); });
      ++num_refused;
    }
  }
  EXPECT_EQ(num_refused, 3);
}

// Whatever is damaged, the answer is an error or a file whose tensors can all be read.
TEST(SafetensorsFileTest, SurvivesRandomDamage) {
  const TempFolder folder;
  const std::string whole = SmallFile();
  const std::string_view tokens[] = {"{",    "}",     "[",       "]",
                                     ",",    ":",     "\"",      "-1",
                                     "1e9",  "0",     "999999",  "18446744073709551615",
                                     "null", "\"a\"", "\\u0000", "F4"};
  std::mt19937 random(1);
  int num_accepted = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string bytes = whole;
    for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 2:
          bytes.erase(at, 1 + random() % 4);
          break;
        default:
          bytes.insert(at, tokens[random() % std::size(tokens)]);
          bytes[0] = static_cast<char>(bytes[0] + static_cast<char>(random() % 4));
      }
      if (bytes.empty()) bytes = "x";
    }
    try {
      const SafetensorsFile file =
          SafetensorsFile::Open(folder.Write("m.safetensors", bytes), LoadMode::kRead);
      ++num_accepted;
      size_t sum = 0;
      for (const SafetensorsTensor& tensor : file.tensors()) {
        for (const std::byte byte : file.Bytes(tensor)) sum += std::to_integer<size_t>(byte);
      }
      EXPECT_LE(sum, 255 * bytes.size());
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kIo)) << error.what();
    }
  }
  EXPECT_GT(num_accepted, 100);  // changed data bytes and names are fine
}

}  // namespace
}  // namespace opst
