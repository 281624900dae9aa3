// Character properties and normal forms, as the reference sees them; regular expressions have
// their own (regex.h).
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_UNICODE_H_
#define OPST_TEXT_UNICODE_H_

#include <string>
#include <string_view>

namespace opst::text {

// White_Space: what added tokens with lstrip or rstrip swallow.
bool IsWhitespace(char32_t character);
// Alphabetic, marks, decimal digits, connectors, joiners: what a "single_word" token may not touch.
bool IsWordCharacter(char32_t character);
// Categories Nd, Nl and No.
bool IsNumeric(char32_t character);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` must be valid UTF-8. O(n log n) also for a long run of combining marks.
std::string Normalize(std::string_view text, NormalForm form);

}  // namespace opst::text

#endif  // OPST_TEXT_UNICODE_H_
