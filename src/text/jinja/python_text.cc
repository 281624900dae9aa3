// Walks over characters; case comes from utf8proc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/python_text.h"

#include <utf8proc.h>

#include <array>
#include <cstdio>

#include "text/utf8.h"

namespace opst::text::jinja {
namespace {

std::string Mapped(std::string_view text, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto character = static_cast<utf8proc_int32_t>(ReadCharacter(text, at));
    AppendCharacter(static_cast<char32_t>(map(character)), result);
  }
  return result;
}

bool IsIn(std::string_view character, std::string_view set) {
  return set.find(character) != std::string_view::npos;
}

bool IsLetter(char32_t character) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

}  // namespace

std::vector<std::string> Characters(std::string_view text) {
  std::vector<std::string> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    ReadCharacter(text, at);
    characters.emplace_back(text.substr(begin, at - begin));
  }
  return characters;
}

int64_t CountCharacters(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

bool IsBlank(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view StripLeft(std::string_view text) {
  for (size_t at = 0; at < text.size(); at = 0) {
    if (!IsBlank(ReadCharacter(text, at))) break;
    text.remove_prefix(at);
  }
  return text;
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size();
    if (!IsBlank(ReadCharacterBackward(text, at))) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string_view StripLeft(std::string_view text, std::string_view set) {
  for (size_t at = 0; at < text.size(); at = 0) {
    ReadCharacter(text, at);
    if (!IsIn(text.substr(0, at), set)) break;
    text.remove_prefix(at);
  }
  return text;
}

std::string_view StripRight(std::string_view text, std::string_view set) {
  while (!text.empty()) {
    size_t at = text.size();
    ReadCharacterBackward(text, at);
    if (!IsIn(text.substr(at), set)) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string PythonRepr(std::string_view text) {
  const bool uses_double =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = uses_double ? '"' : '\'';
  std::string result(1, quote);
  for (size_t at = 0; at < text.size();) {
    const char32_t c = ReadCharacter(text, at);
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\r') {
      result += "\\r";
    } else if (c == '\t') {
      result += "\\t";
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", static_cast<unsigned>(c));
      result += escape.data();
    } else {
      AppendCharacter(c, result);
    }
  }
  return result + quote;
}

std::string UpperCase(std::string_view text) { return Mapped(text, utf8proc_toupper); }
std::string LowerCase(std::string_view text) { return Mapped(text, utf8proc_tolower); }

std::string Capitalized(std::string_view text) {
  if (text.empty()) return {};
  size_t at = 0;
  ReadCharacter(text, at);
  return Mapped(text.substr(0, at), utf8proc_totitle) + LowerCase(text.substr(at));
}

std::string TitleCase(std::string_view text) {
  std::string result;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const bool is_letter = IsLetter(ReadCharacter(text, at));
    result += Mapped(text.substr(begin, at - begin), in_word ? utf8proc_tolower : utf8proc_totitle);
    in_word = is_letter;
  }
  return result;
}

}  // namespace opst::text::jinja
