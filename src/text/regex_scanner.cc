// Escapes of Oniguruma patterns; what PCRE2 would read differently is refused here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/regex_scanner.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "io/quote.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

bool IsAsciiLetterOrDigit(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

}  // namespace

void RegexScanner::Refuse(std::string_view construct) const {
  ThrowIo(source_.file, Concat(source_.field, " must not use ", construct), Quote(source_.pattern));
}

bool RegexScanner::Accept(std::string_view token) {
  if (!NextIs(token)) return false;
  rest_.remove_prefix(token.size());
  return true;
}

char32_t RegexScanner::Next() {
  if (rest_.empty()) Refuse("an escape or a class without its end");
  size_t length = 0;
  const char32_t character = ReadCharacter(rest_, length);
  rest_.remove_prefix(length);
  return character;
}

std::optional<unsigned> RegexScanner::Number() {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  if (error == std::errc::result_out_of_range) Refuse("a number of that size");
  if (error != std::errc()) return std::nullopt;
  rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
  return value;
}

std::optional<RegexSet> RegexScanner::Set(char32_t kind) {
  const auto set = [](std::string items) { return RegexSet{items, Concat("[", items, "]")}; };
  const auto opposite = [](std::string_view items) {
    return RegexSet{"", Concat("[^", items, "]")};
  };
  switch (kind) {
    case 's':
      return set(properties_.WhiteSpace());
    case 'S':
      return RegexSet{R"(\P{White_Space})", Concat("[^", properties_.WhiteSpace(), "]")};
    case 'd':
      return set(properties_.DecimalDigit());
    case 'D':
      return opposite(properties_.DecimalDigit());
    case 'w':
      return RegexSet{properties_.Word(), Concat("[", properties_.WordOutsideClass(), "]")};
    case 'W':
      return opposite(properties_.WordOutsideClass());
    case 'p':
    case 'P':
      return Property(kind == 'P');
    default:
      return std::nullopt;
  }
}

RegexSet RegexScanner::Property(bool negated) {
  if (!Accept("{")) Refuse("\\p without {name}");
  const size_t end = rest_.find('}');
  if (end == std::string_view::npos) Refuse("\\p{ without its end");
  std::string_view name = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  if (!name.empty() && name[0] == '^') {
    negated = !negated;
    name.remove_prefix(1);
  }
  const std::optional<std::string> items = properties_.Find(name);
  if (!items) Refuse(Concat("the property ", Quote(name)));
  if (negated) return {"", Concat("[^", *items, "]")};
  return {*items, Concat("[", *items, "]")};
}

char32_t RegexScanner::EscapedCharacter(char32_t kind) {
  switch (kind) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'x': {
      if (!Accept("{")) {
        const char32_t character = HexCharacter(2, 2);
        if (character >= 0x80) Refuse("\\xHH above 7F, which means a byte and not a character");
        return character;
      }
      const char32_t character = HexCharacter(1, 8);
      if (!Accept("}")) Refuse("\\x{ without its end");
      return character;
    }
    case 'u':
      return HexCharacter(4, 4);
    default:
      if (IsAsciiLetterOrDigit(kind)) Refuse(Concat("\\", static_cast<char>(kind)));
      return kind;
  }
}

char32_t RegexScanner::HexCharacter(size_t min_digits, size_t max_digits) {
  unsigned value = 0;
  const size_t limit = std::min(max_digits, rest_.size());
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + limit, value, 16);
  const auto digits = static_cast<size_t>(end - rest_.data());
  if (error != std::errc() || digits < min_digits) Refuse("\\x or \\u without its digits");
  rest_.remove_prefix(digits);
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) Refuse("a code without a character");
  return value;
}

}  // namespace opst::text
