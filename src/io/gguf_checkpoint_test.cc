// Which files make up a GGUF model, and what a split one must keep.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_checkpoint.h"

#include <gtest/gtest.h>

#include "io/testing/files.h"
#include "io/testing/gguf_builder.h"

namespace opst {
namespace {

using testing::ExpectIoError;
using testing::GgufBuilder;

std::string Part(int number, int count, std::string_view tensor, int total = 2) {
  GgufBuilder builder;
  builder.Pair("split.no", GgufType::kU16, GgufBuilder::Raw(static_cast<uint16_t>(number)))
      .Pair("split.count", GgufType::kU16, GgufBuilder::Raw(static_cast<uint16_t>(count)))
      .Pair("split.tensors.count", GgufType::kI32, GgufBuilder::Raw(int32_t{total}))
      .Tensor(tensor, {1}, 0, "1234");
  return builder.Bytes();
}

TEST(GgufCheckpointTest, AnyPartOrTheFolderOpensTheWholeModel) {
  const TempFolder folder;
  const std::string first = folder.Write("m-00001-of-00002.gguf", Part(0, 2, "a"));
  const std::string second = folder.Write("m-00002-of-00002.gguf", Part(1, 2, "b"));
  for (const std::string& path : {first, second, folder.path()}) {
    const auto checkpoint = GgufCheckpoint::Open(path);
    EXPECT_EQ(checkpoint.tensors().size(), 2u);
    EXPECT_EQ(checkpoint.path(), first);
    EXPECT_EQ(checkpoint.total_bytes(), 8u);
    ASSERT_NE(checkpoint.Find("b"), nullptr);
    EXPECT_EQ(checkpoint.Find("b")->bytes()[3], std::byte{'4'});
    EXPECT_EQ(checkpoint.Find("c"), nullptr);
  }
}

TEST(GgufCheckpointTest, RefusesMissingSwappedAndForeignParts) {
  const TempFolder folder;
  const std::string first = folder.Write("m-00001-of-00002.gguf", Part(0, 2, "a"));
  ExpectIoError({"no number 2"}, [&] { GgufCheckpoint::Open(first); });
  folder.Write("m-00002-of-00002.gguf", Part(0, 2, "b"));
  ExpectIoError({"split.no must be the part"}, [&] { GgufCheckpoint::Open(first); });
  folder.Write("m-00002-of-00002.gguf", Part(1, 3, "b"));
  ExpectIoError({"split.count must be the number of parts"}, [&] { GgufCheckpoint::Open(first); });
  folder.Write("m-00002-of-00002.gguf", Part(1, 2, "a"));
  ExpectIoError({"one part only", "\"a\""}, [&] { GgufCheckpoint::Open(first); });
  folder.Write("m-00001-of-00002.gguf", Part(0, 2, "c", 3));
  ExpectIoError({"split.tensors.count"}, [&] { GgufCheckpoint::Open(first); });
}

TEST(GgufCheckpointTest, APartUnderAnotherNameIsRefused) {
  const TempFolder folder;
  const std::string path = folder.Write("renamed.gguf", Part(0, 2, "a"));
  ExpectIoError({"split.count", "2 instead of 1"}, [&] { GgufCheckpoint::Open(path); });
}

TEST(GgufCheckpointTest, AFolderMustHoldOneModel) {
  const TempFolder folder;
  ExpectIoError({"no *.gguf file"}, [&] { GgufCheckpoint::Open(folder.path()); });
  folder.Write("a.gguf", GgufBuilder().Tensor("a", {1}, 0, "1234").Bytes());
  EXPECT_EQ(GgufCheckpoint::Open(folder.path()).tensors().size(), 1u);
  EXPECT_TRUE(GgufCheckpoint::IsGguf(folder.path()));
  folder.Write("b.gguf", GgufBuilder().Tensor("a", {1}, 0, "1234").Bytes());
  ExpectIoError({"more than one", "a.gguf", "b.gguf"},
                [&] { GgufCheckpoint::Open(folder.path()); });
  folder.Write("model.safetensors", "");
  EXPECT_FALSE(GgufCheckpoint::IsGguf(folder.path()));
}

}  // namespace
}  // namespace opst
