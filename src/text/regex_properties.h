// Character classes of the reference's regular expressions, written for PCRE2; not a parser.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_REGEX_PROPERTIES_H_
#define OPST_TEXT_REGEX_PROPERTIES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/unicode_tables.h"

namespace opst::text {

// "\x{41}", good inside and outside a class.
std::string RegexCharacter(char32_t character);

// What Unicode 15 to 16 assigned: the regex library knows it, or it has to be listed.
enum class YoungCodePoints { kKnown, kListed };

// The results are contents of a class, to be put between [ and ].
class RegexProperties {
 public:
  explicit RegexProperties(YoungCodePoints young) : young_(young) {}

  // White_Space. PCRE2's own \s also holds U+180E, which lost that property in Unicode 6.3.
  std::string WhiteSpace() const;
  std::string DecimalDigit() const { return Category("Nd"); }
  // Alphabetic, marks, decimal digits and connectors; PCRE2's own \w differs by version.
  std::string Word() const;
  // Outside a class Oniguruma's \w also takes the Latin-1 fractions and superscripts.
  std::string WordOutsideClass() const;
  // A general category ("L", "Lu") or a script ("Han"); nothing for a name that is not known.
  std::optional<std::string> Find(std::string_view name) const;

 private:
  std::string Category(std::string_view name) const;
  std::string Young(std::span<const NamedRange> ranges, std::string_view name) const;

  YoungCodePoints young_;
};

}  // namespace opst::text

#endif  // OPST_TEXT_REGEX_PROPERTIES_H_
