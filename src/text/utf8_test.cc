// Tests of UTF-8 pieces, repair and reading, and of the byte alphabet.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "text/byte_alphabet.h"

namespace opst::text {
namespace {

bool IsSurrogate(char32_t c) { return c >= 0xD800 && c < 0xE000; }

TEST(Utf8Test, EveryCharacterSurvivesWritingAndReading) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (IsSurrogate(c)) continue;
    std::string text;
    AppendCharacter(c, text);
    ASSERT_TRUE(IsValidUtf8(text)) << static_cast<unsigned>(c);
    size_t forward = 0;
    size_t backward = text.size();
    ASSERT_EQ(ReadCharacter(text, forward), c);
    ASSERT_EQ(forward, text.size());
    ASSERT_EQ(ReadCharacterBackward(text, backward), c);
    ASSERT_EQ(backward, 0u);
  }
}

TEST(Utf8Test, SurrogatesAndOverlongFormsAndHighCodesAreInvalid) {
  for (const char* bytes :
       {"\xED\xA0\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x80\x80\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\x80", "\xBF"}) {
    EXPECT_FALSE(IsValidUtf8(bytes)) << bytes;
  }
}

// What Python's bytes.decode("utf-8", errors="replace") gives.
TEST(Utf8Test, EachMaximalInvalidPieceBecomesOneReplacementCharacter) {
  const std::string r(kReplacementCharacter);
  const std::pair<const char*, std::string> rows[] = {
      {"abc", "abc"},
      {"a\xFFz", "a" + r + "z"},
      {"\xE4\xBD", r},  // truncated at the end
      {"\xE4\xBD"
       "A",
       r + "A"},  // one piece of two bytes
      {"\xE4"
       "A",
       r + "A"},
      {"\xF0\x9F\x98"
       "A",
       r + "A"},  // one piece of three bytes
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", r + "\xF0\x9F\x98\x80"},
      {"\xED\xA0\x80", r + r + r},  // a surrogate: no byte of it can begin a character
      {"\xC0\x80", r + r},
      {"\xF4\x90\x80\x80", r + r + r + r},
      {"\x80\x80", r + r},
      {"\xF0\x9F", r},
  };
  for (const auto& [bytes, text] : rows) EXPECT_EQ(RepairUtf8(bytes), text);
}

TEST(Utf8Test, TruncatedIsOnlyWhatMoreBytesCanComplete) {
  EXPECT_EQ(NextUtf8Piece("\xE4\xBD", 0).kind, Utf8Kind::kTruncated);
  EXPECT_EQ(NextUtf8Piece("\xED\xA0", 0).kind, Utf8Kind::kInvalid);
  EXPECT_EQ(NextUtf8Piece("\xF4\x90", 0).kind, Utf8Kind::kInvalid);
  EXPECT_EQ(NextUtf8Piece("\xF0\x9F\x98", 0).length, 3u);
}

TEST(ByteAlphabetTest, GivesEachByteItsOwnPrintableCharacter) {
  std::set<char32_t> seen;
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<uint8_t>(value);
    const char32_t character = ByteToCharacter(byte);
    EXPECT_TRUE(seen.insert(character).second);
    EXPECT_GT(character, U' ');
    EXPECT_EQ(CharacterToByte(character), byte);
  }
  EXPECT_EQ(ByteToCharacter(' '), U'\u0120');   // Ġ
  EXPECT_EQ(ByteToCharacter('\n'), U'\u010A');  // Ċ
  EXPECT_EQ(ByteToCharacter('A'), U'A');
  EXPECT_FALSE(CharacterToByte(U' '));
  EXPECT_FALSE(CharacterToByte(U'\u0144'));
}

TEST(ByteAlphabetTest, TokenWithAForeignCharacterStandsForItself) {
  std::string bytes;
  AppendCharactersAsBytes("\u0120a", bytes);
  EXPECT_EQ(bytes, " a");
  AppendCharactersAsBytes("\u0120\u4F60", bytes);
  EXPECT_EQ(bytes, " a\u0120\u4F60");
}

}  // namespace
}  // namespace opst::text
