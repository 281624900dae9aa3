// Tests of the byte pair encoding model on vocabularies that can be followed by hand.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.h"

#include <gtest/gtest.h>

#include "base/testing/errors.h"
#include "text/json_document.h"
#include "text/testing/small_tokenizer.h"

namespace opst::text {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

BpeModel Model(Json model) {
  model["type"] = "BPE";
  JsonDocument document = ReadJsonDocument(Json{{"model", model}}.dump(), "t.json");
  return BpeModel::Read(document, "t.json");
}

Ids Encode(const BpeModel& model, std::string_view piece) {
  BpeModel::Workspace workspace;
  Ids ids;
  model.Encode(piece, workspace, ids);
  return ids;
}

TEST(BpeTest, MergesByRankAndFromTheLeft) {
  const BpeModel model =
      Model({{"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}, {"aa", 5}}},
             {"merges", {"b c", "a b", "a a"}}});
  EXPECT_EQ(Encode(model, "abc"), (Ids{0, 4}));   // "b c" comes before "a b"
  EXPECT_EQ(Encode(model, "aaa"), (Ids{5, 0}));   // the leftmost of equal rank
  EXPECT_EQ(Encode(model, "aaab"), (Ids{5, 3}));  // "a b" first, then what is left
  EXPECT_EQ(Encode(model, ""), Ids{});
}

TEST(BpeTest, ReadsMergesAsStringsAndAsPairs) {
  const Json vocab = {{"a", 0}, {" ", 1}, {"a ", 2}, {"#", 3}, {"#a", 4}};
  EXPECT_EQ(
      Encode(Model({{"vocab", vocab}, {"merges", Json::array({Json::array({"a", " "})})}}), "a "),
      Ids{2});
  EXPECT_EQ(Encode(Model({{"vocab", vocab}, {"merges", {"#version: 0.2", "# a"}}}), "#a"), Ids{4});
}

TEST(BpeTest, PairThatStandsTwiceHasItsLastRank) {
  const BpeModel model = Model({{"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}}},
                                {"merges", {"a b", "b c", "a b"}}});
  EXPECT_EQ(Encode(model, "abc"), (Ids{0, 4}));
}

TEST(BpeTest, IgnoreMergesKeepsWholeTokens) {
  const Json vocab = {{"a", 0}, {"b", 1}, {"ab", 2}};
  const Json merges = Json::array();
  EXPECT_EQ(Encode(Model({{"vocab", vocab}, {"merges", merges}}), "ab"), (Ids{0, 1}));
  EXPECT_EQ(Encode(Model({{"vocab", vocab}, {"merges", merges}, {"ignore_merges", true}}), "ab"),
            Ids{2});
}

TEST(BpeTest, UnknownCharacters) {
  const Json vocab = {{"a", 0}, {"<unk>", 1}};
  Json model = {{"vocab", vocab}, {"merges", Json::array()}};
  EXPECT_EQ(Encode(Model(model), "xaxx"), Ids{0});  // nothing to say it with
  model["unk_token"] = "<unk>";
  EXPECT_EQ(Encode(Model(model), "xaxx"), (Ids{1, 0, 1, 1}));
  model["fuse_unk"] = true;
  EXPECT_EQ(Encode(Model(model), "xaxx"), (Ids{1, 0, 1}));
  model["unk_token"] = "<missing>";
  const std::string error = IoError([&] { Encode(Model(model), "ax"); });
  EXPECT_NE(error.find("model.unk_token must be in the vocabulary"), std::string::npos) << error;
  EXPECT_EQ(Encode(Model(model), "aa"), (Ids{0, 0}));
}

TEST(BpeTest, ByteFallbackSpellsUnknownCharacters) {
  Json model = {{"vocab", {{"a", 0}, {"<unk>", 1}, {"<0xC3>", 2}, {"<0xA9>", 3}}},
                {"merges", Json::array()},
                {"byte_fallback", true},
                {"unk_token", "<unk>"}};
  EXPECT_EQ(Encode(Model(model), "a\u00E9"), (Ids{0, 2, 3}));
  EXPECT_EQ(Encode(Model(model), "a\u00E8"), (Ids{0, 1}));  // one byte has no token
  // The reference's order: bytes overtake an unknown token that may still fuse.
  EXPECT_EQ(Encode(Model(model), "x\u00E9a"), (Ids{2, 3, 1, 0}));
}

// 2^18 characters that all merge, in one piece: quadratic time would be minutes.
TEST(BpeTest, OneLongPieceTakesLittleTime) {
  Json vocab;
  Json merges = Json::array();
  std::string token = "a";
  for (int i = 0; i < 12; ++i) {
    vocab[token] = i;
    if (i < 11) merges.push_back(Json::array({token, token}));
    token += token;
  }
  const BpeModel model = Model({{"vocab", vocab}, {"merges", merges}});
  const Ids ids = Encode(model, std::string(1 << 18, 'a'));
  EXPECT_EQ(ids, Ids(size_t{1} << 7, 11));
}

}  // namespace
}  // namespace opst::text
