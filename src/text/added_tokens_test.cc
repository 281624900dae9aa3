// Tests of added tokens: where they are found and which flags and ids are accepted.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/testing/errors.h"
#include "text/prefix_tree.h"
#include "text/testing/small_tokenizer.h"

namespace opst::text {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

Json Token(int id, std::string_view content, const Json& flags = Json::object()) {
  Json token = SmallTokenizerJson()["added_tokens"][0];
  token["id"] = id;
  token["content"] = content;
  token.update(flags);
  return token;
}

Tokenizer With(const Json& tokens, const Json& normalizer = nullptr) {
  Json json = SmallTokenizerJson();
  json["added_tokens"] = tokens;
  json["normalizer"] = normalizer;
  return Load(json);
}

TEST(PrefixTreeTest, FindsTheLongestKey) {
  PrefixTree tree;
  EXPECT_TRUE(tree.empty());
  EXPECT_TRUE(tree.Insert("ab", 1));
  EXPECT_TRUE(tree.Insert("abcd", 2));
  EXPECT_TRUE(tree.Insert("b", 3));
  EXPECT_FALSE(tree.Insert("ab", 4));
  EXPECT_EQ(tree.LongestAt("abcd", 0)->value, 2u);
  EXPECT_EQ(tree.LongestAt("abcx", 0)->value, 1u);
  EXPECT_EQ(tree.LongestAt("abcx", 1)->length, 1u);
  EXPECT_FALSE(tree.LongestAt("abcx", 2));
}

TEST(AddedTokensTest, LongestOfSeveralWins) {
  const Tokenizer tokenizer = With({Token(263, "<a"), Token(264, "<a>"), Token(265, "a>b")});
  EXPECT_EQ(tokenizer.Encode("<a>b<a"), (Ids{264, 'b', 263}));
}

TEST(AddedTokensTest, StripFlagsTakeWhiteSpace) {
  const Tokenizer left = With(Json::array({Token(263, "<x>", {{"lstrip", true}})}));
  EXPECT_EQ(left.Encode("a \n <x> b"), (Ids{'a', 263, ' ', 'b'}));
  const Tokenizer right = With(Json::array({Token(263, "<x>", {{"rstrip", true}})}));
  EXPECT_EQ(right.Encode("a <x> \u3000b"), (Ids{'a', ' ', 263, 'b'}));
  const Tokenizer both =
      With(Json::array({Token(263, "<x>", {{"lstrip", true}, {"rstrip", true}})}));
  EXPECT_EQ(both.Encode(" <x> <x> "), (Ids{263, 263}));
}

TEST(AddedTokensTest, SingleWordMustStandAlone) {
  const Tokenizer tokenizer = With(Json::array({Token(263, "run", {{"single_word", true}})}));
  EXPECT_EQ(tokenizer.Encode("run-run"), (Ids{263, '-', 263}));
  EXPECT_EQ(tokenizer.Encode("rune"), (Ids{'r', 'u', 'n', 'e'}));
  EXPECT_EQ(tokenizer.Encode("_run"), (Ids{'_', 'r', 'u', 'n'}));
}

TEST(AddedTokensTest, NormalizedTokensAreFoundInNormalizedText) {
  const Json nfc = {{"type", "NFC"}};
  const Tokenizer given = With(Json::array({Token(263, "e\u0301")}), nfc);
  EXPECT_EQ(given.Encode("e\u0301"), Ids{263});
  EXPECT_EQ(given.Encode("\u00E9"), (Ids{0xC3, 0xA9}));
  const Tokenizer normalized = With(
      Json::array({Token(263, "\u65E5e\u0301", {{"normalized", true}, {"special", false}})}), nfc);
  EXPECT_EQ(normalized.Encode("\u65E5e\u0301"), Ids{263});
  EXPECT_EQ(normalized.Encode("\u65E5\u00E9"), Ids{263});
  EXPECT_EQ(normalized.Decode(Ids{263}), "\u65E5\u00E9");
}

TEST(AddedTokensTest, RunsOfStrippedWhiteSpaceTakeLittleTime) {
  const Tokenizer tokenizer = With({Token(263, "<x>", {{"lstrip", true}, {"rstrip", true}}),
                                    Token(264, "\t", {{"rstrip", true}})});
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "\t";
  // All but the first stand in white space that an earlier one has taken.
  EXPECT_EQ(tokenizer.Encode(text).size(), text.size());
}

TEST(AddedTokensTest, RefusesIdsThatTheReferenceWouldNotGive) {
  const auto expect = [](std::initializer_list<Json> tokens, std::string_view part) {
    const std::string error = IoError([&] { With(Json(Json::array_t(tokens))); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect({Token(300, "<x>")}, "\"<x>\" must have id 263, the next free one; got 300");
  expect({Token(7, "hello")}, "\"hello\" must have id 259, its id in model.vocab; got 7");
  expect({Token(263, "<x>"), Token(264, "<x>")}, "twice");
  expect({Token(259, "hello"), Token(259, "hello")}, "twice");
  expect({Token(263, "")}, "1 to 1024 bytes");
  expect({Token(263, std::string(2000, 'x'))}, "1 to 1024 bytes");
  expect({Token(5'000'000, "<x>")}, "0 to 4194303");
  expect({Token(263, "<x>", {{"shiny", true}})}, "\"shiny\"");
  expect({Token(263, "<x>", {{"special", 1}})},
         "added_tokens[0].special must be true or false; got 1");
}

}  // namespace
}  // namespace opst::text
