// What a GGUF file says is read as it says, and every claim that cannot be true is refused by name.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/gguf.h"

#include <gtest/gtest.h>

#include <random>

#include "io/testing/files.h"
#include "io/testing/gguf_builder.h"

namespace opst {
namespace {

using testing::ExpectIoError;
using testing::GgufBuilder;

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

GgufHeader Parse(const std::string& bytes) { return ParseGguf(AsBytes(bytes), "m.gguf"); }

void Refuse(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  ExpectIoError({"[m.gguf]"}, [&] { Parse(bytes); });
  ExpectIoError(parts, [&] { Parse(bytes); });
}

GgufBuilder Small() {
  GgufBuilder builder;
  builder.String("general.architecture", "llama")
      .U32("llama.block_count", 7)
      .F32("llama.eps", 0.5f)
      .Bool("flag", true)
      .Strings("tokens", {"a", "", "bc"})
      .Array<int32_t>("types", GgufType::kI32, {3, -1})
      .Array<float>("scores", GgufType::kF32, {0.25f})
      .Tensor("one", {2, 3}, 0, std::string(24, 'x'))
      .Tensor("two", {64}, 8, std::string(68, 'y'));
  return builder;
}

TEST(GgufTest, ReadsMetadataOfEveryKindAskedFor) {
  const std::string bytes = Small().Bytes();
  const GgufMetadata metadata = Parse(bytes).metadata;
  EXPECT_EQ(metadata.String("general.architecture"), "llama");
  EXPECT_EQ(metadata.Integer("llama.block_count", 0, 10), 7);
  EXPECT_EQ(metadata.Number("llama.eps", 0, 1), 0.5);
  EXPECT_EQ(metadata.Number("llama.block_count", 0, 9), 7);
  EXPECT_TRUE(metadata.Bool("flag", false));
  EXPECT_EQ(metadata.Strings("tokens"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(metadata.Integers("types"), (std::vector<int64_t>{3, -1}));
  EXPECT_EQ(metadata.Floats("scores"), std::vector<float>{0.25f});
  EXPECT_EQ(metadata.Integer("absent", 0, 1, 5), 5);
}

TEST(GgufTest, MetadataOfAnotherKindIsRefusedWithKeyAndValue) {
  const std::string bytes = Small().Bytes();
  const GgufMetadata metadata = Parse(bytes).metadata;
  ExpectIoError({"\"llama.block_count\" must be an integer from 0 to 6", "7 (U32)"},
                [&] { metadata.Integer("llama.block_count", 0, 6); });
  ExpectIoError({"must be an integer", "\"llama\""},
                [&] { metadata.Integer("general.architecture", 0, 6); });
  ExpectIoError({"\"tokens\" must be a number", "array of 3 string"},
                [&] { metadata.Number("tokens", 0, 6); });
  ExpectIoError({"\"absent\" must be there"}, [&] { metadata.String("absent"); });
  ExpectIoError({"must be a bool", "7 (U32)"}, [&] { metadata.Bool("llama.block_count", true); });
  ExpectIoError({"must be an array of integers"}, [&] { metadata.Integers("scores"); });
}

TEST(GgufTest, TensorsHaveTheirShapeOutermostFirstAndTheirBytes) {
  for (const uint32_t version : {2u, 3u}) {
    const TempFolder folder;
    const auto file = GgufFile::Open(folder.Write("m.gguf", Small().Bytes(version)));
    ASSERT_EQ(file.tensors().size(), 2u);
    const GgufTensor& one = file.tensors()[0];
    const GgufTensor& two = file.tensors()[1];
    EXPECT_EQ(one.shape, (std::vector<int64_t>{3, 2}));
    EXPECT_EQ(one.Describe(), "\"one\" F32 [3,2]");
    EXPECT_EQ(file.Bytes(one).size(), 24u);
    EXPECT_EQ(file.Bytes(one)[23], std::byte{'x'});
    EXPECT_EQ(two.offset % 32, 0u);
    EXPECT_EQ(file.Bytes(two).size(), 68u);
    EXPECT_EQ(file.Bytes(two)[0], std::byte{'y'});
  }
}

TEST(GgufTest, EveryTruncationIsRefused) {
  const std::string bytes = Small().Bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    Refuse(bytes.substr(0, length), {"file"});
  }
  EXPECT_EQ(Parse(bytes).tensors.size(), 2u);
}

TEST(GgufTest, RefusesOtherVersionsAndByteOrders) {
  Refuse("GGML" + Small().Bytes().substr(4), {"must begin with GGUF", "\"GGML\""});
  Refuse(Small().Bytes(1), {"version must be 2 or 3", "got 1"});
  Refuse(Small().Bytes(4), {"version must be 2 or 3", "got 4"});
  Refuse(Small().Bytes(0x03000000), {"little endian"});
}

TEST(GgufTest, RefusesCountsBeyondTheFile) {
  for (const uint64_t count : {uint64_t{1000}, uint64_t{1} << 62, UINT64_MAX}) {
    GgufBuilder tensors = Small();
    tensors.num_tensors_ = count;
    Refuse(tensors.Bytes(), {"tensor count must fit the file", std::to_string(count)});
    GgufBuilder pairs = Small();
    pairs.num_pairs_ = count;
    Refuse(pairs.Bytes(), {"metadata count must fit the file", std::to_string(count)});
    const std::string length = GgufBuilder::Raw(count);
    Refuse(GgufBuilder().Pair("k", GgufType::kString, length).Bytes(), {"string", "\"k\""});
    for (const GgufType type : {GgufType::kString, GgufType::kU8, GgufType::kF64}) {
      Refuse(GgufBuilder().Pair("k", GgufType::kArray, GgufBuilder::ArrayHead(type, count)).Bytes(),
             {"array must fit the file", "\"k\"", std::to_string(count)});
    }
  }
}

TEST(GgufTest, RefusesMetadataThatIsNoValue) {
  Refuse(GgufBuilder().Pair("k", static_cast<GgufType>(13), "").Bytes(),
         {"value type must be 0 to 12", "\"k\": 13"});
  Refuse(GgufBuilder().Pair("k", GgufType::kBool, "\2").Bytes(), {"bools must be 0 or 1", "2"});
  Refuse(GgufBuilder()
             .Pair("k", GgufType::kArray, GgufBuilder::ArrayHead(GgufType::kArray, 0))
             .Bytes(),
         {"arrays must not hold arrays"});
  Refuse(GgufBuilder().U32("k", 1).U32("k", 1).Bytes(), {"keys must be unique", "\"k\""});
  Refuse(GgufBuilder().U32(std::string(70000, 'k'), 1).Bytes(), {"at most 65535 bytes", "70000"});
}

TEST(GgufTest, RefusesShapesThatCannotBe) {
  const std::string data(64, 'x');
  const auto with = [&](const std::vector<uint64_t>& extents, uint32_t type) {
    return GgufBuilder().Tensor("t", extents, type, data).Bytes();
  };
  Refuse(with({}, 0), {"rank must be 1 to 4", "\"t\": 0"});
  Refuse(with({1, 1, 1, 1, 1}, 0), {"rank must be 1 to 4"});
  Refuse(with({16, 0}, 0), {"extents must be at least 1", "extent 1 = 0"});
  Refuse(with({uint64_t{1} << 32, uint64_t{1} << 32}, 0), {"product below 2^60"});
  Refuse(with({UINT64_MAX}, 0), {"extents", std::to_string(UINT64_MAX)});
  Refuse(with({uint64_t{1} << 31, uint64_t{1} << 31, 4}, 0), {"product below 2^60"});
  Refuse(with({33}, 8), {"rows must be whole blocks of 32 values", "Q8_0 [33]"});
  Refuse(with({16}, 4), {"tensor type must be one this version knows", "\"t\": 4"});
  Refuse(with({17}, 0), {"tensors must lie inside the file", "\"t\" F32 [17] = 68 bytes"});
}

TEST(GgufTest, RefusesOffsetsThatOverlapLeaveHolesOrLeaveTheFile) {
  const std::string data(128, 'x');
  const auto with = [&](uint64_t second) {
    return GgufBuilder().Tensor("a", {16}, 0, data).TensorInfo("b", {16}, 0, second).Bytes();
  };
  EXPECT_EQ(Parse(with(64)).tensors.size(), 2u);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{32}, uint64_t{65}, uint64_t{96},
                                uint64_t{1} << 40, UINT64_MAX - 31}) {
    Refuse(with(offset), {"tensors must follow each other", "bytes before it end at"});
  }
  Refuse(GgufBuilder().Tensor("a", {8}, 0, data).Bytes(), {"file must end with its last tensor"});
  Refuse(GgufBuilder().Tensor("a", {32}, 0, data).TensorInfo("a", {1}, 0, 128).Bytes(),
         {"tensor names must be unique"});
}

TEST(GgufTest, AlignmentMayBeSetAndMustBeAPowerOfTwo) {
  GgufBuilder builder;
  builder.alignment_ = 64;
  builder.U32("general.alignment", 64).Tensor("a", {1}, 0, "1234").Tensor("b", {1}, 0, "5678");
  const std::string bytes = builder.Bytes();
  EXPECT_EQ(Parse(bytes).tensors[1].offset % 64, 0u);
  for (const uint32_t alignment : {0u, 1u, 48u, 1u << 30}) {
    Refuse(GgufBuilder().U32("general.alignment", alignment).Bytes(), {"general.alignment"});
  }
}

TEST(GgufTest, RandomMutationsAreReadOrRefusedButNeverCrash) {
  const std::string good = Small().Bytes();
  std::mt19937 random(5);
  int num_refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      const GgufHeader header = Parse(bytes);
      for (const GgufTensor& tensor : header.tensors) {
        ASSERT_LE(tensor.offset + tensor.num_bytes, bytes.size());
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kIo) << error.what();
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 5000);
}

}  // namespace
}  // namespace opst
