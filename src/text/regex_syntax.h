// Translation of a pattern from Oniguruma's syntax to PCRE2's; matches nothing itself.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_REGEX_SYNTAX_H_
#define OPST_TEXT_REGEX_SYNTAX_H_

#include <string>
#include <string_view>

#include "text/regex_properties.h"

namespace opst::text {

struct RegexSource {
  std::string_view pattern;  // valid UTF-8
  std::string_view file;     // for error texts
  std::string_view field;    // where in the file the pattern stands
};

// The same language for PCRE2 with UTF, UCP, MULTILINE and newline = LF.
// Every character is written as a number, so nothing reaches PCRE2 that was not understood here.
// Throws kIo, naming it, for a construct whose meaning would differ:
// `\h`, `\b`, `[a&&b]`, `{n,m}+`, options in the middle, back references ...
std::string TranslateRegex(const RegexSource& source, YoungCodePoints young);

}  // namespace opst::text

#endif  // OPST_TEXT_REGEX_SYNTAX_H_
