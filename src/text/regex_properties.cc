// Names of properties and the code points that an older PCRE2 does not know to have them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/regex_properties.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace opst::text {
namespace {

// "C" and "Cn" are missing: they would have to lose the young code points.
constexpr std::string_view kCategories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc",
                                            "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
                                            "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So",
                                            "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};
constexpr std::string_view kScripts[] = {
    "Arabic", "Armenian", "Bengali", "Bopomofo", "Cyrillic", "Devanagari", "Georgian", "Greek",
    "Han",    "Hangul",   "Hebrew",  "Hiragana", "Katakana", "Latin",      "Tamil",    "Thai"};

template <size_t N>
bool Holds(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::string RegexCharacter(char32_t character) {
  char digits[8];
  const auto [end, error] =
      std::to_chars(std::begin(digits), std::end(digits), static_cast<unsigned>(character), 16);
  return Concat("\\x{", std::string_view(digits, static_cast<size_t>(end - digits)), "}");
}

std::string RegexProperties::WhiteSpace() const {
  return R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
}

std::string RegexProperties::Word() const {
  return Concat(R"(\p{Alphabetic}\p{Pc})", Category("M"), Category("Nd"),
                Young(CategoriesSinceUnicode14(), "L"));
}

std::string RegexProperties::WordOutsideClass() const {
  return Word() + R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
}

std::optional<std::string> RegexProperties::Find(std::string_view name) const {
  if (Holds(kCategories, name)) return Category(name);
  // "sc:" because the bare name of a script means script *extensions* since PCRE2 10.40.
  if (Holds(kScripts, name)) {
    return Concat(R"(\p{sc:)", name, "}", Young(ScriptsSinceUnicode14(), name));
  }
  return std::nullopt;
}

std::string RegexProperties::Category(std::string_view name) const {
  return Concat(R"(\p{)", name, "}", Young(CategoriesSinceUnicode14(), name));
}

// `name` may be the beginning of a range's name: "L" takes "Lu" and "Lo".
std::string RegexProperties::Young(std::span<const NamedRange> ranges,
                                   std::string_view name) const {
  std::string items;
  if (young_ == YoungCodePoints::kKnown) return items;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto fits = [&](size_t at) {
      return std::string_view(ranges[at].name).substr(0, name.size()) == name;
    };
    if (!fits(i)) continue;
    const char32_t first = ranges[i].first;
    while (i + 1 < ranges.size() && fits(i + 1) && ranges[i + 1].first == ranges[i].last + 1) ++i;
    items += RegexCharacter(first);
    if (ranges[i].last != first) items += "-" + RegexCharacter(ranges[i].last);
  }
  return items;
}

}  // namespace opst::text
