// Tests of patterns: what is translated, what is found, what is refused.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/regex.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/testing/errors.h"
#include "text/testing/small_tokenizer.h"

namespace opst::text {
namespace {

Regex Compile(std::string_view pattern) { return Regex({pattern, "t.json", "pattern"}); }

std::vector<std::string> Matches(std::string_view pattern, std::string_view text) {
  const Regex regex = Compile(pattern);
  Regex::Matcher matcher(regex);
  matcher.Start(text);
  std::vector<std::string> matches;
  while (const auto match = matcher.Next()) {
    matches.emplace_back(text.substr(match->begin, match->end - match->begin));
  }
  return matches;
}

using Strings = std::vector<std::string>;

TEST(RegexTest, FindsFromLeftToRight) {
  EXPECT_EQ(Matches("a+", "baacad"), (Strings{"aa", "a"}));
  EXPECT_EQ(Matches("a|ab", "ab"), (Strings{"a"}));  // the first alternative, not the longest
  EXPECT_EQ(Matches("x*", "abxx"), (Strings{"", "", "xx"}));
  EXPECT_EQ(Matches("b", ""), Strings{});
}

// Ruby's rules, where PCRE2 read alone would do something else.
TEST(RegexTest, MeansWhatOnigurumaMeans) {
  EXPECT_EQ(Matches(R"(\s)", "\u180E\u0085\u00A0x"), (Strings{"\u0085", "\u00A0"}));
  EXPECT_EQ(Matches(R"(a{,2})", "aaa"), (Strings{"aa", "a"}));
  EXPECT_EQ(Matches(R"(^a$)", "a\na\n"), (Strings{"a", "a"}));
  EXPECT_EQ(Matches(R"(\v)", "\v\n\f"), (Strings{"\v"}));
  EXPECT_EQ(Matches(R"(.)", "\n\r"), (Strings{"\r"}));
  EXPECT_EQ(Matches(R"(\w+)", "a\u00B2-\u0301_\u20AC"), (Strings{"a\u00B2", "\u0301_"}));
  EXPECT_EQ(Matches(R"([\w]+)", "a\u00B2"), (Strings{"a"}));
  EXPECT_EQ(Matches(R"(\d+)", "1\u0663\u00BD"), (Strings{"1\u0663"}));
  EXPECT_EQ(Matches(R"(\p{Han}+)", "\u4E2D\u3001x"), (Strings{"\u4E2D"}));  // not the comma
  EXPECT_EQ(Matches(R"({x}a{1)", "{x}a{1"), (Strings{"{x}a{1"}));
  EXPECT_EQ(Matches(R"((?i:'s|'ll))", "'S 'lL '\u017F"), (Strings{"'S", "'lL", "'\u017F"}));
  EXPECT_EQ(Matches(R"([\[\]\\\-a-c-]+)", R"([]\-abc-d)"), (Strings{R"([]\-abc-)"}));
  EXPECT_EQ(Matches(R"(\P{L}+|\p{^N})", "1 a"), (Strings{"1 ", "a"}));
}

// U+1FA77 came with Unicode 15, U+1CC00 and U+16D43 with 16.
TEST(RegexTest, KnowsCharactersYoungerThanTheLibrary) {
  EXPECT_EQ(Matches(R"(\p{S}+)", "\U0001FA77\U0001CC00a"), (Strings{"\U0001FA77\U0001CC00"}));
  EXPECT_EQ(Matches(R"([^\p{L}]+)", "\U00016D43-"), (Strings{"-"}));
  EXPECT_EQ(Matches(R"(\p{Han})", "\U00031350"), (Strings{"\U00031350"}));
  EXPECT_EQ(Matches(R"(\p{Lu}+)", "\uA7CB\uA7CC\uA7CD"), (Strings{"\uA7CB\uA7CC"}));
}

TEST(RegexTest, RefusesWhatWouldMeanSomethingElse) {
  const std::pair<const char*, const char*> rows[] = {
      {R"(\h)", R"(\h)"},
      {R"(\bx)", R"(\b)"},
      {R"((a)\1)", R"(\1)"},
      {R"(\R)", R"(\R)"},
      {R"(\X)", R"(\X)"},
      {R"(a{2}+)", "{n,m}+"},
      {R"(a{2}?)", "{n}?"},
      {R"(a{3,2})", "n > m"},
      {R"(a{2000})", "above 1000"},
      {R"(a{99999999999})", "number of that size"},
      {R"(a(?i)b)", "group other than"},
      {R"((?m:a.))", "group other than"},
      {R"((?<n>a))", "group other than"},
      {R"((*FAIL))", "(*VERB)"},
      {R"([a&&b])", "&&"},
      {R"([[:alpha:]])", "inside a class"},
      {R"([a[b]])", "inside a class"},
      {R"([])", "directly behind ["},
      {R"([^\D])", "inside a class"},
      {R"([a-\s])", "range that ends with a set"},
      {R"([z-a])", "backwards"},
      {R"([a-c-e])", "joins nothing"},
      {R"(\p{Emoji})", "property \"Emoji\""},
      {R"(\p{C})", "property \"C\""},
      {R"(\pL)", "without {name}"},
      {R"(\xE9)", "above 7F"},
      {R"(\x{110000})", "without a character"},
      {R"(\uD800)", "without a character"},
      {R"((?i:ss))", "\"ss\" without regard to case"},
      {R"((?i:\p{L}))", "without regard to case"},
      {"(?i:\u00E9)", "beyond ASCII"},
      {R"(a**)", "anything to repeat"},
      {R"(*a)", "anything to repeat"},
      {R"((?=a)+)", "anything to repeat"},
      {R"((a)", "without its end"},
      {R"(a))", "without its ("},
      {R"(a\)", "without its end"},
      {R"([a)", "without its end"},
      {R"((?<=a+)b)", "PCRE2 accepts"},
  };
  for (const auto& [pattern, construct] : rows) {
    const std::string error = IoError([&, p = pattern] { Compile(p); });
    EXPECT_NE(error.find("[t.json] pattern must "), std::string::npos) << pattern << ": " << error;
    EXPECT_NE(error.find(construct), std::string::npos) << pattern << ": " << error;
  }
}

TEST(RegexTest, RefusesPatternsWithoutBound) {
  IoError([] { Compile(std::string(10'000, 'a')); });
  IoError([] { Compile(std::string(150, '(') + std::string(150, ')')); });
  IoError([] { Compile("((((((a{1000}){1000}){1000}){1000}){1000}){1000})"); });
}

TEST(RegexTest, GivesUpInsteadOfSearchingForever) {
  const std::string error = IoError([] { Matches("(?:a|aa)+$", std::string(60, 'a') + "c"); });
  EXPECT_NE(error.find("gave up"), std::string::npos) << error;
}

TEST(RegexTest, LongMatchesNeedNoLongStack) {
  const std::string text(1'000'000, 'a');
  EXPECT_EQ(Matches("a+", text), (Strings{text}));
  EXPECT_EQ(Matches("(?:a|b)++", std::string(20'000, 'a')).size(), 1u);
}

}  // namespace
}  // namespace opst::text
