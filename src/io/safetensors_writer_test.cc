// Tests of the streaming safetensors writer: alignment, order, late metadata, refusals.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_writer.h"

#include <gtest/gtest.h>

#include "io/safetensors.h"
#include "io/testing/files.h"

namespace opst {
namespace {

using testing::ExpectError;
using testing::ExpectIoError;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void ExpectRefused(std::vector<SafetensorsDeclaration> tensors,
                   std::initializer_list<std::string_view> parts,
                   std::map<std::string, std::string> metadata = {}) {
  const TempFolder folder;
  ExpectError(ErrorKind::kInvalidArgument, parts,
              [&] { SafetensorsWriter(folder.File("out"), std::move(tensors), metadata); });
  EXPECT_EQ(folder.NumFiles(), 0u);
}

TEST(SafetensorsWriterTest, AlignsEveryTensor) {
  const TempFolder folder;
  const std::string path = folder.File("out.opst");
  SafetensorsWriter writer(path,
                           {{"a", "U8", {5}},
                            {"none", "F32", {0, 3}},
                            {"b", "F32", {2}},
                            {"c", "U8", {64}},
                            {"ü\"", "F4", {2, 3}}},
                           {{"opst_format", "1"}});
  writer.Append("a", Bytes("123"));
  writer.Append("a", {});
  writer.Append("a", Bytes("45"));
  writer.Append("b", Bytes("abcdefgh"));
  writer.Append("c", Bytes(std::string(64, 'c')));
  writer.Append("ü\"", Bytes("xyz"));
  EXPECT_EQ(KindOf(path), PathKind::kMissing);
  writer.Finish();

  const SafetensorsFile file = SafetensorsFile::Open(path);
  EXPECT_EQ(file.file().size(), writer.file_bytes());
  EXPECT_EQ(file.metadata().at("opst_format"), "1");
  size_t num_pads = 0;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (IsPaddingName(tensor.name)) {
      ++num_pads;
      for (const std::byte byte : file.Bytes(tensor)) EXPECT_EQ(byte, std::byte{0});
    } else if (tensor.num_bytes > 0) {
      EXPECT_EQ(file.FileOffset(tensor) % 64, 0u) << tensor.name;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(file.Bytes(tensor).data()) % 64, 0u) << tensor.name;
    }
  }
  EXPECT_EQ(num_pads, 2u);  // after a and b; c fills its line, the last one needs none
  EXPECT_EQ(file.Bytes(file.At("a"))[4], std::byte{'5'});
  EXPECT_EQ(file.Bytes(file.At("ü\""))[2], std::byte{'z'});
  EXPECT_EQ(file.At("none").num_bytes, 0u);
  EXPECT_EQ(folder.NumFiles(), 1u);
}

TEST(SafetensorsWriterTest, WritesWithoutPaddingWhenAsked) {
  const TempFolder folder;
  const std::string path = folder.File("out");
  SafetensorsWriter writer(path, {{"a", "U8", {1}}, {"b", "U8", {1}}}, {},
                           {.if_exists = IfExists::kRefuse, .alignment = 1});
  writer.Append("a", Bytes("1"));
  writer.Append("b", Bytes("2"));
  writer.Finish();
  EXPECT_EQ(SafetensorsFile::Open(path).tensors().size(), 2u);
  EXPECT_TRUE(ReadWholeFile(path, 1000).ends_with("}12"));
}

TEST(SafetensorsWriterTest, EmptyFilesAreValid) {
  const TempFolder folder;
  SafetensorsWriter(folder.File("a"), {}, {}).Finish();
  SafetensorsWriter(folder.File("b"), {{"none", "F32", {0}}}, {}).Finish();
  EXPECT_EQ(SafetensorsFile::Open(folder.File("a")).tensors().size(), 0u);
  EXPECT_EQ(SafetensorsFile::Open(folder.File("b")).tensors().size(), 1u);
}

TEST(SafetensorsWriterTest, MetadataMayBeFilledInLater) {
  const TempFolder folder;
  SafetensorsWriter writer(folder.File("out"), {{"a", "U8", {3}}},
                           {{"hash", "0000000000000000"}, {"other", "x"}}, {.alignment = 1});
  writer.Append("a", Bytes("abc"));
  writer.SetMetadata("hash", "78af5f94892f3950");
  ExpectError(ErrorKind::kInvalidArgument, {"declared first", "\"nothash\""},
              [&] { writer.SetMetadata("nothash", ""); });
  ExpectError(ErrorKind::kInvalidArgument, {"room of its placeholder", "\"hash\""},
              [&] { writer.SetMetadata("hash", "78af5f94892f39500"); });
  ExpectError(ErrorKind::kInvalidArgument, {"UTF-8"}, [&] { writer.SetMetadata("hash", "\xff"); });
  writer.SetMetadata("other", "");
  ExpectError(ErrorKind::kInvalidArgument, {"room of its placeholder", "\"other\""},
              [&] { writer.SetMetadata("other", "\""); });  // two bytes in JSON
  writer.Finish();
  const SafetensorsFile file = SafetensorsFile::Open(folder.File("out"));
  EXPECT_EQ(file.metadata().at("other"), "");
  EXPECT_EQ(file.metadata().at("hash"), "78af5f94892f3950");
}

TEST(SafetensorsWriterTest, BytesMustComeInOrderAndFit) {
  const TempFolder folder;
  const auto expect = [](std::initializer_list<std::string_view> parts, auto&& action) {
    ExpectError(ErrorKind::kInvalidArgument, parts, action);
  };
  {
    SafetensorsWriter writer(folder.File("out"), {{"a", "U8", {2}}, {"b", "U8", {1}}}, {});
    expect({"declared order", "\"b\"", "\"a\" U8 [2] has 0 of 2"},
           [&] { writer.Append("b", Bytes("1")); });
    expect({"more bytes", "\"a\""}, [&] { writer.Append("a", Bytes("123")); });
    writer.Append("a", Bytes("1"));
    expect({"declared order", "\"b\"", "has 1 of 2"}, [&] { writer.Append("b", Bytes("1")); });
    expect({"must be complete", "\"a\"", "1 of 2"}, [&] { writer.Finish(); });
    writer.Append("a", Bytes("2"));
    expect({"declared order", "\"pad.0\""}, [&] { writer.Append("pad.0", Bytes("2")); });
    writer.Append("b", Bytes("3"));
    expect({"complete", "\"b\""}, [&] { writer.Append("b", Bytes("3")); });
  }
  EXPECT_EQ(folder.NumFiles(), 0u);
}

TEST(SafetensorsWriterTest, RefusesWrongDeclarations) {
  ExpectRefused({{"a", "U8", {1}}, {"a", "F32", {1}}}, {"unique", "\"a\""});
  ExpectRefused({{"", "U8", {1}}}, {"names"});
  ExpectRefused({{"pad.7", "U8", {1}}}, {"names", "pad.7"});
  ExpectRefused({{"__metadata__", "U8", {1}}}, {"names"});
  ExpectRefused({{"a", "f32", {1}}}, {"dtype", "\"f32\""});
  ExpectRefused({{"a", "U8", {-1}}}, {"sizes", "[-1]"});
  ExpectRefused({{"a", "F4", {3}}}, {"whole bytes"});
  ExpectRefused({{"a", "F64", {int64_t{1} << 57}}}, {"sizes"});
  ExpectRefused(
      {{"a", "U8", {int64_t{1} << 59}}, {"b", "U8", {int64_t{1} << 59}}, {"c", "U8", {1}}},
      {"sizes", "\"c\""});
  ExpectRefused({{"\xff", "U8", {1}}}, {"UTF-8"});
  ExpectRefused({}, {"UTF-8"}, {{"a", "\xff"}});
}

TEST(SafetensorsWriterTest, RefusesAnExistingFileAndAFullDisk) {
  const TempFolder folder;
  const std::string path = folder.Write("out", "old");
  ExpectIoError({path, "must not exist yet"}, [&] { SafetensorsWriter(path, {}, {}); });
  // No file system here has half an exabyte: the error comes before anything is computed.
  ExpectIoError({"disk must take"}, [&] {
    SafetensorsWriter(path, {{"a", "U8", {int64_t{1} << 59}}}, {},
                      {.if_exists = IfExists::kReplace});
  });
  EXPECT_EQ(ReadWholeFile(path, 10), "old");
  SafetensorsWriter(path, {}, {}, {.if_exists = IfExists::kReplace}).Finish();
  SafetensorsFile::Open(path);
  EXPECT_EQ(folder.NumFiles(), 1u);
}

}  // namespace
}  // namespace opst
