// Cursor over an Oniguruma pattern with its escapes and counts; groups and classes:
// regex_syntax.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_REGEX_SCANNER_H_
#define OPST_TEXT_REGEX_SCANNER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "text/regex_properties.h"
#include "text/regex_syntax.h"

namespace opst::text {

// \s, \d, \w, \p{...} or the opposite of one.
struct RegexSet {
  std::string in_class;  // PCRE2 items between [ and ]; "" when the opposite has no such form
  std::string alone;     // a PCRE2 expression
};

class RegexScanner {
 public:
  RegexScanner(const RegexSource& source, YoungCodePoints young)
      : source_(source), rest_(source.pattern), properties_(young) {}

  bool AtEnd() const { return rest_.empty(); }
  bool NextIs(std::string_view token) const { return rest_.substr(0, token.size()) == token; }
  bool Accept(std::string_view token);
  char32_t Next();  // refuses the pattern at its end
  std::optional<unsigned> Number();

  // Position to come back to.
  std::string_view rest() const { return rest_; }
  void Reset(std::string_view rest) { rest_ = rest; }

  // Behind "\" and the letter `kind`.
  std::optional<RegexSet> Set(char32_t kind);
  char32_t EscapedCharacter(char32_t kind);

  // "FIELD must not use CONSTRUCT; got PATTERN".
  [[noreturn]] void Refuse(std::string_view construct) const;

 private:
  RegexSet Property(bool negated);
  char32_t HexCharacter(size_t min_digits, size_t max_digits);

  RegexSource source_;
  std::string_view rest_;
  RegexProperties properties_;
};

}  // namespace opst::text

#endif  // OPST_TEXT_REGEX_SCANNER_H_
