// Search for a pattern of a tokenizer.json (Oniguruma syntax) in valid UTF-8; captures nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_REGEX_H_
#define OPST_TEXT_REGEX_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/regex_syntax.h"

namespace opst::text {

struct TextSpan {
  size_t begin, end;  // bytes, half open
};

// Immutable after construction; searches may run in several threads, each with its own Matcher.
class Regex {
 public:
  // Throws kIo for a pattern that is wrong, too large, or means something else in PCRE2.
  explicit Regex(const RegexSource& source);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // The workspace of one thread's searches.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    // Begins with a new subject, valid UTF-8 that must outlive the search.
    void Start(std::string_view subject);
    // Matches from left to right. An empty match directly behind the previous match is skipped.
    // Throws kIo when the pattern gives up: more than 10 million steps or 64 MiB for one match.
    std::optional<TextSpan> Next();

   private:
    struct State;
    std::optional<TextSpan> Search(size_t from);

    const Regex& regex_;
    std::unique_ptr<State> state_;
    std::string_view subject_;
    size_t from_ = 0;
    std::optional<size_t> previous_end_;
  };

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace opst::text

#endif  // OPST_TEXT_REGEX_H_
