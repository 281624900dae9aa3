// What Split and Replace look for: a literal text or a regular expression; splits nothing itself.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_PATTERN_H_
#define OPST_TEXT_PATTERN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "text/json_fields.h"
#include "text/regex.h"

namespace opst::text {

class TextPattern {
 public:
  // The field "pattern" of `fields`: {"String": "..."} or {"Regex": "..."}.
  static TextPattern Read(Fields& fields);
  // One that the code itself needs; `pattern` is Oniguruma syntax too.
  static TextPattern OfRegex(std::string_view pattern);

  // Finds matches from left to right in one text after the other. Must not outlive the pattern.
  class Finder {
   public:
    explicit Finder(const TextPattern& pattern);
    void Start(std::string_view text);
    std::optional<TextSpan> Next();

   private:
    const TextPattern& pattern_;
    std::optional<Regex::Matcher> matcher_;
    std::string_view text_;
    size_t from_ = 0;
  };

 private:
  std::string literal_;  // when there is no regex_
  std::optional<Regex> regex_;
};

// Every match of a pattern becomes `content`.
class Replacement {
 public:
  // The fields "pattern" and "content".
  static Replacement Read(Fields& fields);
  // Throws kIo when the result exceeds `max_bytes`: steps in a row could grow without bound.
  std::string Run(std::string_view text, size_t max_bytes) const;

 private:
  TextPattern pattern_;
  std::string content_;
  std::string file_, field_;
};

}  // namespace opst::text

#endif  // OPST_TEXT_PATTERN_H_
