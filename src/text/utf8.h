// UTF-8: reading, writing and repairing; knows no character properties (unicode.h).
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_UTF8_H_
#define OPST_TEXT_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace opst::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind {
  kCharacter,  // `length` bytes are one character
  kInvalid,    // `length` bytes are a maximal piece that no further byte can repair
  kTruncated,  // the text ends inside a character that is right so far
};

struct Utf8Piece {
  Utf8Kind kind;
  size_t length;
};

// The piece that begins at `position` < bytes.size(). Pieces are Unicode's "maximal subparts", the
// unit that Python and Rust replace by one U+FFFD: E4 BD 41 is an invalid piece of 2 bytes and "A".
Utf8Piece NextUtf8Piece(std::string_view bytes, size_t position);

bool IsValidUtf8(std::string_view bytes);

// Each invalid piece becomes one U+FFFD, a truncated one at the end too.
std::string RepairUtf8(std::string_view bytes);

// Reads the character at `position` of *valid* UTF-8 and moves `position` behind it.
char32_t ReadCharacter(std::string_view text, size_t& position);
// The last character before `position` > 0 of *valid* UTF-8; moves `position` to its start.
char32_t ReadCharacterBackward(std::string_view text, size_t& position);

void AppendCharacter(char32_t character, std::string& text);

}  // namespace opst::text

#endif  // OPST_TEXT_UTF8_H_
