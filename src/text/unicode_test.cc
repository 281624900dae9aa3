// Tests of character properties and normal forms.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <gtest/gtest.h>

#include "text/utf8.h"

namespace opst::text {
namespace {

TEST(UnicodeTest, PropertiesOfSingleCharacters) {
  for (const char32_t c : U"\t\n\r \u0085\u00A0\u1680\u2003\u2028\u202F\u205F\u3000") {
    if (c != 0) {
      EXPECT_TRUE(IsWhitespace(c)) << std::hex << static_cast<unsigned>(c);
    }
  }
  for (const char32_t c : U"a\u180E\u200B\u200D\uFEFF\u001C") {
    EXPECT_FALSE(IsWhitespace(c)) << std::hex << static_cast<unsigned>(c);
  }
  for (const char32_t c : U"aZ_\u00E9\u0301\u0663\u2160\u24B6\u200D\u4E2D") {
    if (c != 0) {
      EXPECT_TRUE(IsWordCharacter(c)) << std::hex << static_cast<unsigned>(c);
    }
  }
  for (const char32_t c : U"-' \u00BD\u20AC\U0001F600") {
    EXPECT_FALSE(IsWordCharacter(c)) << std::hex << static_cast<unsigned>(c);
  }
  EXPECT_TRUE(IsNumeric(U'7'));
  EXPECT_TRUE(IsNumeric(U'\u00BD'));
  EXPECT_TRUE(IsNumeric(U'\U00011DE0'));  // Unicode 17
  EXPECT_FALSE(IsNumeric(U'x'));
}

TEST(UnicodeTest, NormalForms) {
  struct Row {
    const char *text, *nfc, *nfd, *nfkc;
  };
  const Row rows[] = {
      {"plain", "plain", "plain", "plain"},
      {"e\u0301", "\u00E9", "e\u0301", "\u00E9"},
      {"\u212B", "\u00C5", "A\u030A", "\u00C5"},
      {"a\u0301\u0323", "\u1EA1\u0301", "a\u0323\u0301", "\u1EA1\u0301"},  // marks are put in order
      {"\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8", "\uAC01"},
      {"\u0958", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C"},  // excluded from composition
      {"\uFB01\u2460", "\uFB01\u2460", "\uFB01\u2460", "fi1"},
      {"\u0301x", "\u0301x", "\u0301x", "\u0301x"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Normalize(row.text, NormalForm::kNfc), row.nfc);
    EXPECT_EQ(Normalize(row.text, NormalForm::kNfd), row.nfd);
    EXPECT_EQ(Normalize(row.text, NormalForm::kNfkc), row.nfkc);
  }
}

// The reference's normal forms are those of Unicode 9.
TEST(UnicodeTest, YoungCharactersStayWhereTheyAre) {
  EXPECT_EQ(Normalize("a\u0301\u0898\u0323", NormalForm::kNfc), "\u00E1\u0898\u0323");
  EXPECT_EQ(Normalize("\U00011935\U00011930", NormalForm::kNfc), "\U00011935\U00011930");
  EXPECT_EQ(Normalize("\U00011938", NormalForm::kNfd), "\U00011938");
}

TEST(UnicodeTest, LongRunsOfMarksAreSortedInLittleTime) {
  std::string text = "a";
  for (int i = 0; i < 200'000; ++i) text += "\u0301\u0323";
  const std::string nfd = Normalize(text, NormalForm::kNfd);
  EXPECT_EQ(nfd.size(), text.size());
  EXPECT_EQ(nfd.substr(0, 5), "a\u0323\u0323");
  EXPECT_EQ(nfd.substr(nfd.size() - 4), "\u0301\u0301");
}

}  // namespace
}  // namespace opst::text
