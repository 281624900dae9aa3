// Tests of normalizers and pre-tokenizers: the pieces that the model gets.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "base/testing/errors.h"
#include "text/normalizer.h"
#include "text/testing/small_tokenizer.h"

namespace opst::text {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

Strings PiecesOf(const Json& step, std::string_view text,
                 TextPlace place = TextPlace::kInputStart) {
  Pieces pieces;
  PreTokenizer::Read(&step, "t.json").Run(text, place, pieces);
  Strings strings;
  for (size_t i = 0; i < pieces.size(); ++i) strings.emplace_back(pieces[i]);
  return strings;
}

Json SplitAt(const Json& pattern, std::string_view behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

TEST(PreTokenizerTest, SplitBehaviors) {
  const Json dash = {{"String", "-"}};
  EXPECT_EQ(PiecesOf(SplitAt(dash, "Removed"), "a--b"), (Strings{"a", "b"}));
  EXPECT_EQ(PiecesOf(SplitAt(dash, "Isolated"), "a--b"), (Strings{"a", "-", "-", "b"}));
  EXPECT_EQ(PiecesOf(SplitAt(dash, "MergedWithPrevious"), "a--b"), (Strings{"a-", "-", "b"}));
  EXPECT_EQ(PiecesOf(SplitAt(dash, "MergedWithNext"), "a--b"), (Strings{"a", "-", "-b"}));
  EXPECT_EQ(PiecesOf(SplitAt(dash, "Contiguous"), "a--b"), (Strings{"a", "--", "b"}));
  EXPECT_EQ(PiecesOf(SplitAt({{"Regex", "[a-z]+"}}, "Removed", true), "ab--c"),
            (Strings{"ab", "c"}));
}

TEST(PreTokenizerTest, ByteLevelCutsWordsAndSpellsBytes) {
  const Json words = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  EXPECT_EQ(PiecesOf(words, "I'm  here, 12!\n"),
            (Strings{"I", "'m", "Ġ", "Ġhere", ",", "Ġ12", "!", "Ċ"}));
  const Json whole = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}};
  EXPECT_EQ(PiecesOf(whole, "a b"), (Strings{"ĠaĠb"}));
  EXPECT_EQ(PiecesOf(whole, " a"), (Strings{"Ġa"}));
}

TEST(PreTokenizerTest, DigitsAloneOrInRuns) {
  EXPECT_EQ(PiecesOf({{"type", "Digits"}, {"individual_digits", true}}, "a12\u00BDb"),
            (Strings{"a", "1", "2", "\u00BD", "b"}));
  EXPECT_EQ(PiecesOf({{"type", "Digits"}, {"individual_digits", false}}, "a12b"),
            (Strings{"a", "12", "b"}));
}

TEST(PreTokenizerTest, MetaspaceMarksWords) {
  const auto metaspace = [](std::string_view scheme, bool split) {
    return Json{
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}};
  };
  EXPECT_EQ(PiecesOf(metaspace("always", true), "a b", TextPlace::kInside), (Strings{"▁a", "▁b"}));
  EXPECT_EQ(PiecesOf(metaspace("always", false), " a"), (Strings{"▁a"}));
  EXPECT_EQ(PiecesOf(metaspace("first", false), "a b"), (Strings{"▁a▁b"}));
  EXPECT_EQ(PiecesOf(metaspace("first", false), "a b", TextPlace::kInside), (Strings{"a▁b"}));
  EXPECT_EQ(PiecesOf(metaspace("never", true), "a  b"), (Strings{"a", "▁", "▁b"}));
}

TEST(PreTokenizerTest, SequenceCutsPiecesFurther) {
  const Json steps = {SplitAt({{"String", ","}}, "Isolated"),
                      {{"type", "Digits"}, {"individual_digits", false}},
                      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}};
  EXPECT_EQ(PiecesOf({{"type", "Sequence"}, {"pretokenizers", steps}}, "a1, b"),
            (Strings{"a", "1", ",", "Ġb"}));
}

std::string Normalized(const Json& step, std::string_view text) {
  return TextNormalizer::Read(&step, "t.json").Run(text);
}

TEST(NormalizerTest, StepsInOrder) {
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const Json prepend = {{"type", "Prepend"}, {"prepend", "▁"}};
  const Json both = {{"type", "Sequence"}, {"normalizers", {prepend, replace}}};
  EXPECT_EQ(Normalized(both, "a b"), "▁a▁b");
  EXPECT_EQ(Normalized(both, ""), "");
  EXPECT_EQ(Normalized({{"type", "NFC"}}, "e\u0301"), "\u00E9");
  const Json spaces = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "▁"}};
  EXPECT_EQ(Normalized(spaces, "a  b c"), "a▁b c");
}

TEST(NormalizerTest, RefusesToGrowWithoutBound) {
  const Json grow = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'a')}};
  const Json steps = {{"type", "Sequence"}, {"normalizers", {grow, grow, grow, grow}}};
  const std::string error = IoError([&] { Normalized(steps, "aaaa"); });
  EXPECT_NE(error.find("must not blow up a text"), std::string::npos) << error;
}

}  // namespace
}  // namespace opst::text
