// Tests of finding, joining and streaming the shards of a checkpoint.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sharded_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "io/checkpoint_index.h"
#include "io/testing/files.h"

namespace opst {
namespace {

using ::testing::ElementsAre;
using testing::ExpectError;
using testing::ExpectIoError;
using testing::RawSafetensors;
using testing::ResidentBytes;

const std::string kTiny = std::string(OPST_SOURCE_DIR) + "/tests/data/tiny/";
constexpr const char* kIndex = "model.safetensors.index.json";

// A shard with U8 tensors of one byte; the byte is the first letter of the name.
std::string Shard(std::initializer_list<std::string_view> names) {
  std::string header = "{", data;
  for (const std::string_view name : names) {
    if (!data.empty()) header += ",";
    header += "\"" + std::string(name) + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + 1) + "]}";
    data += name[0];
  }
  return RawSafetensors(header + "}", data);
}

std::string Index(std::string_view map) {
  return "{\"metadata\":{\"total_size\":2},\"weight_map\":" + std::string(map) + "}";
}

std::vector<std::string> Names(const ShardedCheckpoint& checkpoint) {
  std::vector<std::string> names;
  for (const SourceTensor& source : checkpoint.tensors()) names.push_back(source.name());
  return names;
}

TEST(ShardedCheckpointTest, ReadsWhatTransformersSharded) {
  const std::string folder = kTiny + "mixtral-sharded";
  const ShardedCheckpoint checkpoint = ShardedCheckpoint::Open(folder);
  EXPECT_GE(checkpoint.shards().size(), 4u);
  EXPECT_THAT(checkpoint.files().unused, ElementsAre("golden.safetensors"));
  EXPECT_EQ(checkpoint.files().index, kIndex);
  const SourceTensor* gate = checkpoint.Find("model.layers.2.block_sparse_moe.gate.weight");
  ASSERT_NE(gate, nullptr);
  EXPECT_THAT(gate->tensor->shape, ElementsAre(7, 36));
  EXPECT_EQ(checkpoint.Find("lm_head.weight"), nullptr);
  uint64_t total = 0;
  for (const SourceTensor& source : checkpoint.tensors()) {
    total += checkpoint.Read(source).bytes().size();
  }
  EXPECT_EQ(total, checkpoint.total_bytes());
}

TEST(ShardedCheckpointTest, FolderIndexAndAnyShardAreTheSameModel) {
  const std::string folder = kTiny + "mixtral-sharded";
  const ShardedCheckpoint whole = ShardedCheckpoint::Open(folder);
  const std::vector<std::string> expected = Names(whole);
  EXPECT_EQ(Names(ShardedCheckpoint::Open(folder + "/" + kIndex)), expected);
  for (const std::string& shard : whole.files().shards) {
    EXPECT_EQ(Names(ShardedCheckpoint::Open(folder + "/" + shard)), expected);
  }
}

TEST(ShardedCheckpointTest, SingleFileNeedsNoIndex) {
  const ShardedCheckpoint checkpoint = ShardedCheckpoint::Open(kTiny + "mixtral");
  EXPECT_EQ(checkpoint.shards().size(), 1u);
  EXPECT_EQ(Names(ShardedCheckpoint::Open(kTiny + "mixtral/model.safetensors")), Names(checkpoint));
}

TEST(ShardedCheckpointTest, SeveralFilesWithoutAnIndexAreOneModel) {
  const TempFolder folder;
  folder.Write("one.safetensors", Shard({"a", "b"}));
  folder.Write("two.safetensors", Shard({"c"}));
  const ShardedCheckpoint checkpoint = ShardedCheckpoint::Open(folder.path());
  EXPECT_THAT(Names(checkpoint), ElementsAre("a", "b", "c"));
  EXPECT_EQ(checkpoint.Read(*checkpoint.Find("c")).bytes()[0], std::byte{'c'});
  EXPECT_THAT(Names(ShardedCheckpoint::Open(folder.File("two.safetensors"))), ElementsAre("c"));
}

TEST(ShardedCheckpointTest, SeriesWithoutAnIndexMustBeComplete) {
  const TempFolder folder;
  folder.Write("m-00001-of-00003.safetensors", Shard({"a"}));
  folder.Write("m-00002-of-00003.safetensors", Shard({"b"}));
  ExpectIoError({folder.path(), "every shard", "no number 3"},
                [&] { ShardedCheckpoint::Open(folder.path()); });
  folder.Write("m-00003-of-00003.safetensors", Shard({"c"}));
  folder.Write("adapter.safetensors", Shard({"a"}));
  const ShardedCheckpoint checkpoint = ShardedCheckpoint::Open(folder.path());
  EXPECT_THAT(Names(checkpoint), ElementsAre("a", "b", "c"));
  EXPECT_THAT(checkpoint.files().unused, ElementsAre("adapter.safetensors"));
  EXPECT_EQ(Names(ShardedCheckpoint::Open(folder.File("m-00002-of-00003.safetensors"))),
            Names(checkpoint));
  folder.Write("m-00000-of-00003.safetensors", Shard({"d"}));
  ExpectIoError({"1 to their count", "m-00000-of-00003"},
                [&] { ShardedCheckpoint::Open(folder.path()); });
}

TEST(ShardedCheckpointTest, SeveralModelsInAFolderMustBeNamed) {
  const TempFolder folder;
  folder.Write("model.safetensors", Shard({"a"}));
  folder.Write("x-00001-of-00001.safetensors", Shard({"b"}));
  const auto ask = [&] {
    ExpectIoError({folder.path(), "must be named", "more than one"},
                  [&] { ShardedCheckpoint::Open(folder.path()); });
  };
  ask();
  EXPECT_THAT(Names(ShardedCheckpoint::Open(folder.File("model.safetensors"))), ElementsAre("a"));
  folder.Write(kIndex, Index("{\"b\":\"x-00001-of-00001.safetensors\"}"));
  ask();
  EXPECT_THAT(Names(ShardedCheckpoint::Open(folder.File(kIndex))), ElementsAre("b"));
  std::filesystem::remove(folder.File("model.safetensors"));
  EXPECT_THAT(Names(ShardedCheckpoint::Open(folder.path())), ElementsAre("b"));
  folder.Write("other.safetensors.index.json", Index("{\"b\":\"x-00001-of-00001.safetensors\"}"));
  ask();
  std::filesystem::remove(folder.File(kIndex));
  std::filesystem::remove(folder.File("other.safetensors.index.json"));
  folder.Write("y-00001-of-00001.safetensors", Shard({"c"}));
  ask();
}

TEST(ShardedCheckpointTest, ShardsMustMatchTheIndex) {
  const TempFolder folder;
  folder.Write("1.safetensors", Shard({"a", "b"}));
  folder.Write("2.safetensors", Shard({"c"}));
  const auto open = [&](std::string_view map) {
    folder.Write(kIndex, Index(map));
    return Names(ShardedCheckpoint::Open(folder.path()));
  };
  constexpr std::string_view kGood =
      "{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\",\"c\":\"2.safetensors\"}";
  EXPECT_THAT(open(kGood), ElementsAre("a", "b", "c"));
  ExpectIoError({kIndex, "must name every tensor", "\"b\"", "\"1.safetensors\""},
                [&] { open("{\"a\":\"1.safetensors\",\"c\":\"2.safetensors\"}"); });
  ExpectIoError({kIndex, "\"d\"", "\"1.safetensors\""}, [&] {
    open("{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\",\"d\":\"1.safetensors\"}");
  });
  ExpectIoError({kIndex, "\"b\"", "elsewhere than in \"2.safetensors\""},
                [&] { open("{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}"); });
  ExpectIoError({folder.path(), "must be there", "\"3.safetensors\""},
                [&] { open("{\"a\":\"1.safetensors\",\"b\":\"3.safetensors\"}"); });
  folder.Write("2.safetensors", Shard({"c", "a"}));
  ExpectIoError({"one shard only", "\"a\"", "\"1.safetensors\"", "\"2.safetensors\""},
                [&] { open(kGood); });
}

TEST(ShardedCheckpointTest, RefusesPathsWithoutAModel) {
  const TempFolder folder;
  folder.Write("pytorch_model.bin", "");
  ExpectIoError({folder.path(), "no *.safetensors file, but \"pytorch_model.bin\"",
                 "scripts/pth_to_safetensors.py"},
                [&] { ShardedCheckpoint::Open(folder.path()); });
  std::filesystem::remove(folder.File("pytorch_model.bin"));
  ExpectIoError({folder.path(), "no *.safetensors file"},
                [&] { ShardedCheckpoint::Open(folder.path()); });
  ExpectIoError({"nothing there"}, [&] { ShardedCheckpoint::Open(folder.File("missing")); });
  ExpectIoError({"must be called"}, [&] { ShardedCheckpoint::Open(folder.Write("a.bin", "")); });
  ExpectIoError({"device"}, [&] { ShardedCheckpoint::Open("/dev/null"); });
}

TEST(ShardedCheckpointTest, ReadsPartsAndRefusesOthers) {
  const TempFolder folder;
  folder.Write(
      "model.safetensors",
      RawSafetensors("{\"x\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]}}", "abcde"));
  ShardedCheckpoint opened = ShardedCheckpoint::Open(folder.path());
  const ShardedCheckpoint checkpoint = std::move(opened);  // nothing may point into the old one
  const SourceTensor& x = checkpoint.tensors()[0];
  SourceBytes part = checkpoint.Read(x, 1, 3);
  EXPECT_EQ(part.bytes().size(), 3u);
  EXPECT_EQ(part.bytes()[0], std::byte{'b'});
  part = checkpoint.Read(x, 5, 0);
  EXPECT_TRUE(part.bytes().empty());
  ExpectError(ErrorKind::kInvalidArgument, {"inside the tensor"},
              [&] { checkpoint.Read(x, 4, 2); });
  ExpectError(ErrorKind::kInvalidArgument, {"inside the tensor"},
              [&] { checkpoint.Read(x, UINT64_MAX, 2); });
  std::filesystem::resize_file(folder.File("model.safetensors"), 20);
  ExpectIoError({"keep its length"}, [&] { checkpoint.Read(x); });
}

TEST(ShardedCheckpointTest, StreamingNeedsTheMemoryOfOnePiece) {
  const TempFolder folder;
  constexpr uint64_t kPiece = 4 << 20, kWhole = 32 * kPiece;
  const std::string number = std::to_string(kWhole);
  const std::string start = RawSafetensors(
      "{\"x\":{\"dtype\":\"U8\",\"shape\":[" + number + "],\"data_offsets\":[0," + number + "]}}",
      "");
  const std::string path = folder.Write("model.safetensors", start);
  std::filesystem::resize_file(path, start.size() + kWhole);
  const ShardedCheckpoint checkpoint = ShardedCheckpoint::Open(path);
  const size_t before = ResidentBytes();
  for (uint64_t begin = 0; begin < kWhole; begin += kPiece) {
    const SourceBytes piece = checkpoint.Read(checkpoint.tensors()[0], begin, kPiece);
    size_t sum = 0;
    for (const std::byte byte : piece.bytes()) sum += std::to_integer<size_t>(byte);
    EXPECT_EQ(sum, 0u);
    EXPECT_LT(ResidentBytes(), before + 4 * kPiece);
  }
}

TEST(ShardedCheckpointTest, GivesAlignedBytesFromMisalignedFiles) {
  const TempFolder folder;
  for (int spaces = 0; spaces < 8; ++spaces) {
    const std::string header = "{\"x\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}" +
                               std::string(static_cast<size_t>(spaces), ' ');
    folder.Write("model.safetensors", RawSafetensors(header, "abcdefgh"));
    const ShardedCheckpoint checkpoint = ShardedCheckpoint::Open(folder.path());
    const SourceBytes bytes = checkpoint.Read(checkpoint.tensors()[0]);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.bytes().data()) % 8, 0u);
    EXPECT_EQ(bytes.bytes()[7], std::byte{'h'});
  }
}

TEST(CheckpointIndexTest, SkipsWhatItDoesNotNeed) {
  const auto map = ParseCheckpointIndex(
      "{\"metadata\":{\"a\":[1,-2,3.5,true,null,{\"weight_map\":{\"x\":1}}]},\"other\":\"y\","
      "\"weight_map\":{\"t\":\"s.safetensors\"}}",
      "index");
  EXPECT_EQ(map.size(), 1u);
  EXPECT_EQ(map.at("t"), "s.safetensors");
}

TEST(CheckpointIndexTest, RefusesWhatIsNoIndex) {
  const auto refuse = [](std::string_view json, std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(json);
    ExpectIoError(parts, [&] { ParseCheckpointIndex(json, "[index]"); });
  };
  refuse("", {"[index]", "valid JSON"});
  refuse("{}", {"must have a weight_map"});
  refuse("[]", {"an array"});
  refuse("3", {"a number"});
  refuse("{\"weight_map\":{}}", {"must name tensors"});
  refuse("{\"weight_map\":[]}", {"an array"});
  refuse("{\"weight_map\":{\"t\":1}}", {"\"t\"", "a number"});
  refuse("{\"weight_map\":{\"t\":{}}}", {"\"t\"", "an object"});
  refuse("{\"weight_map\":{\"t\":[]}}", {"\"t\"", "an array"});
  refuse(Index("{\"t\":\"a.safetensors\",\"t\":\"b.safetensors\"}"), {"listed once", "\"t\""});
  refuse("{\"weight_map\":{\"t\":\"a.safetensors\"},\"weight_map\":{}}", {"unique"});
  refuse("{\"m\":" + std::string(100'000, '['), {"32 deep"});
  refuse("{\"weight_map\":{\"t\":\"a.safetensors\"}} x", {"valid JSON"});
}

TEST(CheckpointIndexTest, RefusesNamesThatLeaveTheFolder) {
  for (const char* name : {"../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..",
                           "..safetensors", ".safetensors", "", "x.bin", "a\\\\b.safetensors",
                           "a\\u0000b.safetensors", "a\\nb.safetensors"}) {
    SCOPED_TRACE(name);
    ExpectIoError({"plain *.safetensors names", "\"t\""}, [&] {
      ParseCheckpointIndex(Index("{\"t\":\"" + std::string(name) + "\"}"), "index");
    });
  }
}

}  // namespace
}  // namespace opst
