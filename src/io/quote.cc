// Makes text from an untrusted file safe to print in an error or a table; not a JSON writer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/quote.h"

#include <algorithm>

namespace opst {

std::string Quote(std::string_view text, size_t max_bytes) {
  size_t length = std::min(text.size(), max_bytes);
  if (length < text.size()) {
    // Step back over the continuation bytes of a character that would be cut in two.
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  }
  constexpr char kHex[] = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text.substr(0, length)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      result += "\\x";
      result += kHex[byte >> 4];
      result += kHex[byte & 15];
    } else {
      result += c;
    }
  }
  result += '"';
  if (length < text.size()) result += "...";
  return result;
}

}  // namespace opst
