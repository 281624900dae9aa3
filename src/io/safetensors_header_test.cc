// Tests that every rule of the safetensors header is held, and that the error names what broke it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_header.h"

#include <gtest/gtest.h>

#include "io/safetensors_dtype.h"
#include "io/testing/files.h"

namespace opst {
namespace {

using ::testing::ElementsAre;
using testing::ExpectIoError;

SafetensorsHeader Parse(std::string_view json, uint64_t data_bytes) {
  return ParseSafetensorsHeader(json, data_bytes, "model.safetensors");
}

std::string Tensor(std::string_view name, std::string_view dtype, std::string_view shape,
                   std::string_view offsets) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) +
         "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":" + std::string(offsets) + "}";
}

void ExpectRefused(std::string_view json, uint64_t data_bytes,
                   std::initializer_list<std::string_view> parts) {
  SCOPED_TRACE(json);
  ExpectIoError({"[model.safetensors]"}, [&] { Parse(json, data_bytes); });
  ExpectIoError(parts, [&] { Parse(json, data_bytes); });
}

TEST(SafetensorsHeaderTest, ReadsTensorsAndMetadata) {
  const SafetensorsHeader header = Parse("{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}," +
                                             Tensor("b", "F32", "[2,3]", "[4,28]") + "," +
                                             Tensor("a", "BF16", "[2]", "[0,4]") + "}   ",
                                         28);
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");  // order of the bytes, not of the header
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].dtype, "F32");
  EXPECT_THAT(header.tensors[1].shape, ElementsAre(2, 3));
  EXPECT_EQ(header.tensors[1].offset, 4u);
  EXPECT_EQ(header.tensors[1].num_bytes, 24u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.Find("b"), &header.tensors[1]);
  EXPECT_EQ(header.Find("c"), nullptr);
}

TEST(SafetensorsHeaderTest, AcceptsTheEdgesOfTheFormat) {
  EXPECT_TRUE(Parse("{}", 0).tensors.empty());
  EXPECT_EQ(Parse("{" + Tensor("scalar", "F64", "[]", "[0,8]") + "}", 8).tensors.size(), 1u);
  // Empty tensors may stand anywhere, also several at one place.
  const SafetensorsHeader header = Parse(
      "{" + Tensor("x", "U8", "[4]", "[0,4]") + "," + Tensor("e", "F32", "[0,7]", "[0,0]") + "," +
          Tensor("f", "F32", "[3,0]", "[4,4]") + "," + Tensor("g", "I64", "[0]", "[0,0]") + "}",
      4);
  EXPECT_EQ(header.tensors.size(), 4u);
  EXPECT_EQ(header.Find("f")->num_bytes, 0u);
}

TEST(SafetensorsHeaderTest, KnowsTheSizeOfEveryType) {
  const std::pair<const char*, int> types[] = {
      {"F64", 64},    {"F32", 32},    {"BF16", 16},       {"F16", 16},        {"I64", 64},
      {"I32", 32},    {"I16", 16},    {"I8", 8},          {"U8", 8},          {"BOOL", 8},
      {"U16", 16},    {"U32", 32},    {"U64", 64},        {"C64", 64},        {"F8_E4M3", 8},
      {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
      {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& [name, bits] : types) {
    const std::string bytes = std::to_string(bits);  // 8 elements
    Parse("{" + Tensor("x", name, "[2,4]", "[0," + bytes + "]") + "}", static_cast<uint64_t>(bits));
    ExpectRefused("{" + Tensor("x", name, "[2,8]", "[0," + bytes + "]") + "}",
                  static_cast<uint64_t>(bits),
                  {"shape times element size", "\"x\"", name, "[2,8]"});
  }
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kF64, DType::kI8,
                            DType::kU8, DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    const std::string_view spelling = SafetensorsSpelling(dtype);
    EXPECT_EQ(DTypeFromSafetensors(spelling), dtype);
    EXPECT_EQ(SafetensorsBits(spelling), 8 * ByteSize(dtype));
  }
}

TEST(SafetensorsHeaderTest, CarriesUnknownTypesAsBytes) {
  const SafetensorsHeader header = Parse("{" + Tensor("x", "F3_X", "[5]", "[0,2]") + "}", 2);
  EXPECT_EQ(header.tensors[0].dtype, "F3_X");
  EXPECT_FALSE(DTypeFromSafetensors("F3_X"));
  ExpectRefused("{" + Tensor("x", std::string(33, 'F'), "[5]", "[0,2]") + "}", 2,
                {"dtype must be a short name", "\"x\""});
}

TEST(SafetensorsHeaderTest, RefusesSizesThatDoNotFit) {
  ExpectRefused("{" + Tensor("x", "F32", "[32,8]", "[0,65536]") + "}", 65536,
                {"\"x\" F32 [32,8] = 1024 bytes, data_offsets [0,65536]"});
  ExpectRefused("{" + Tensor("x", "F4", "[3]", "[0,2]") + "}", 2, {"whole bytes", "\"x\""});
  ExpectRefused("{" + Tensor("x", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0,
                {"below 2^60", "[4294967296,4294967296]"});
  // A zero dimension does not excuse an absurd one, wherever it stands.
  ExpectRefused("{" + Tensor("x", "F32", "[0,4294967296,4294967296]", "[0,0]") + "}", 0,
                {"below 2^60"});
  ExpectRefused("{" + Tensor("x", "U8", "[9223372036854775808]", "[0,0]") + "}", 0,
                {"dimensions must fit 63 bits", "9223372036854775808"});
}

TEST(SafetensorsHeaderTest, RefusesWrongOffsets) {
  const auto one = [](std::string_view offsets) {
    return "{" + Tensor("x", "U8", "[4]", offsets) + "}";
  };
  ExpectRefused(one("[4,0]"), 4, {"must not end before they begin", "\"x\"", "[4,0]"});
  ExpectRefused(one("[18446744073709551615,3]"), 4, {"must not end before they begin"});
  ExpectRefused(one("[18446744073709551611,18446744073709551615]"), 4, {"without holes"});
  ExpectRefused(one("[-4,0]"), 4, {"negative number", "\"x\""});
  ExpectRefused(one("[0,18446744073709551616]"), 4, {"above 64 bits"});
  ExpectRefused(one("[0,4.0]"), 4, {"a fraction", "\"x\""});
  ExpectRefused(one("[0,1e400]"), 4, {"valid JSON"});
  ExpectRefused(one("[0]"), 4, {"must be two numbers"});
  ExpectRefused(one("[0,4,4]"), 4, {"must be two numbers"});
  ExpectRefused(one("[0,[4]]"), 4, {"an array"});
  ExpectRefused(one("[1,5]"), 5, {"without holes", "\"x\"", "at 1", "end at 0"});
  ExpectRefused(one("[0,4]"), 5, {"as long as its header says", "5 bytes", "need 4"});
  ExpectRefused(one("[0,4]"), 3, {"as long as its header says", "3 bytes", "need 4", "truncated"});
  ExpectRefused("{}", 1, {"as long as its header says"});
}

TEST(SafetensorsHeaderTest, RefusesHolesAndOverlap) {
  const std::string first = "{" + Tensor("x", "U8", "[4]", "[0,4]") + ",";
  ExpectRefused(first + Tensor("y", "U8", "[4]", "[5,9]") + "}", 9,
                {"without holes", "\"y\"", "at 5", "end at 4"});
  ExpectRefused(first + Tensor("y", "U8", "[4]", "[3,7]") + "}", 7, {"without holes", "\"y\""});
  ExpectRefused(first + Tensor("y", "U8", "[4]", "[0,4]") + "}", 4, {"without holes", "\"y\""});
}

TEST(SafetensorsHeaderTest, RefusesDuplicates) {
  const std::string x = Tensor("x", "U8", "[0]", "[0,0]");
  ExpectRefused("{" + x + "," + x + "}", 0, {"names must be unique", "\"x\""});
  ExpectRefused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, {"unique", "__metadata__"});
  ExpectRefused("{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 0, {"unique", "metadata \"a\""});
  ExpectRefused("{\"x\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                0, {"fields must be unique", "\"x\"", "\"dtype\""});
}

TEST(SafetensorsHeaderTest, RefusesOtherStructures) {
  ExpectRefused("", 0, {"begin with {", "nothing"});
  ExpectRefused("[]", 0, {"begin with {"});
  ExpectRefused(" {}", 0, {"begin with {"});
  ExpectRefused("{} x", 0, {"valid JSON", "byte 4"});
  ExpectRefused("{}{}", 0, {"valid JSON"});
  ExpectRefused("{", 0, {"valid JSON"});
  ExpectRefused(std::string_view("{}\0garbage", 10), 0, {"NUL", "byte 2"});
  ExpectRefused("{\"x\":1}", 0, {"structure", "\"x\"", "a number"});
  ExpectRefused("{\"x\":null}", 0, {"structure", "null"});
  ExpectRefused("{\"x\":[]}", 0, {"structure", "an array"});
  ExpectRefused("{\"x\":{}}", 0, {"must have the fields", "\"x\""});
  ExpectRefused("{\"x\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, {"one is missing"});
  ExpectRefused("{\"x\":{\"dtype\":8}}", 0, {"a number", "\"x\""});
  ExpectRefused("{\"x\":{\"shape\":\"U8\"}}", 0, {"a string"});
  ExpectRefused("{\"x\":{\"shape\":{}}}", 0, {"an object"});
  ExpectRefused("{\"x\":{\"shape\":[true]}}", 0, {"a boolean"});
  ExpectRefused("{\"x\":{\"strides\":[1]}}", 0, {"fields must be", "\"strides\""});
  ExpectRefused("{\"__metadata__\":\"a\"}", 0, {"a string"});
  ExpectRefused("{\"__metadata__\":{\"a\":1}}", 0, {"a number", "metadata \"a\""});
  ExpectRefused("{\"__metadata__\":{\"a\":{}}}", 0, {"an object"});
  ExpectRefused("{\"\xff\":{}}", 0, {"valid JSON"});
}

TEST(SafetensorsHeaderTest, RefusesDeepNestingAtOnce) {
  ExpectRefused("{\"x\":{\"shape\":" + std::string(1'000'000, '['), 0, {"an array"});
  ExpectRefused("{\"x\":{\"shape\":[" + std::string(1'000'000, '{'), 0, {"an object"});
  std::string ones = "{\"x\":{\"shape\":[1";
  for (int i = 0; i < 100; ++i) ones += ",1";
  ExpectRefused(ones, 0, {"at most 64 dimensions"});
}

TEST(SafetensorsHeaderTest, RefusesAbsurdlyManyMetadataEntries) {
  std::string json = "{\"__metadata__\":{\"\":\"\"";
  for (int i = 0; i < 1'000'000; ++i) json += ",\"" + std::to_string(i) + "\":\"\"";
  ExpectIoError({"at most 1000000 entries"}, [&] { Parse(json + "}}", 0); });
}

TEST(SafetensorsHeaderTest, ErrorsDoNotPrintControlCharacters) {
  try {
    Parse("{\"\\u001b[31m\":1}", 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string_view(error.what()).find('\x1b'), std::string_view::npos);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("\\x1b[31m"));
  }
}

}  // namespace
}  // namespace opst
