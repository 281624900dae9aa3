// Shortens and escapes untrusted text so that it is harmless on a terminal and in a log line.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/quote.h"

#include <cstddef>

#include "text/utf8.h"

namespace opst::text {

std::string Quoted(std::string_view text) {
  constexpr size_t kLongest = 80;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string quoted = "\"";
  size_t position = 0;
  while (position < text.size() && position < kLongest) {
    const Utf8Piece piece = NextUtf8Piece(text, position);
    const std::string_view bytes = text.substr(position, piece.length);
    const auto first = static_cast<unsigned char>(bytes[0]);
    // U+0080 to U+009F are control characters too; in UTF-8 they begin with C2.
    const bool control = first < 0x20 || first == 0x7F ||
                         (first == 0xC2 && static_cast<unsigned char>(bytes.back()) < 0xA0);
    if (piece.kind == Utf8Kind::kCharacter && !control) {
      if (first == '"' || first == '\\') quoted += '\\';
      quoted += bytes;
    } else {
      for (const char byte : bytes) {
        const auto value = static_cast<unsigned char>(byte);
        quoted += "\\x";
        quoted += kHex[value >> 4];
        quoted += kHex[value & 15];
      }
    }
    position += piece.length;
  }
  quoted += position < text.size() ? "\"..." : "\"";
  return quoted;
}

}  // namespace opst::text
