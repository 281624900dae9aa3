// Tokens and their ids, both ways; knows neither merges nor added tokens.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_VOCABULARY_H_
#define OPST_TEXT_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opst::text {

// Look-ups are binary searches: no token of a hostile file can make them slow.
class Vocabulary {
 public:
  Vocabulary() = default;
  // Throws kIo when a token or an id stands twice. Ids must not be negative.
  Vocabulary(const std::vector<std::pair<std::string, int32_t>>& tokens, std::string_view file);

  size_t num_tokens() const { return sorted_.size(); }
  // Highest id + 1; between 0 and here there may be holes.
  int32_t id_limit() const { return static_cast<int32_t>(spans_.size()); }

  std::optional<std::string_view> TokenOf(int32_t id) const;
  std::optional<int32_t> IdOf(std::string_view token) const;
  // The token that is this one character, or -1.
  int32_t IdOfCharacter(char32_t character) const {
    return character < characters_.size() ? characters_[character] : -1;
  }

 private:
  struct Span {
    size_t begin = 0;
    size_t length = 0;
    bool used = false;
  };
  // A token in the sorted table. Most comparisons end at `head` and do not touch the arena.
  struct Entry {
    uint64_t head;  // its first 8 bytes, big-endian, zeros behind a shorter one
    int32_t id;
  };

  std::string_view View(const Span& span) const {
    return std::string_view(arena_).substr(span.begin, span.length);
  }
  std::string_view View(const Entry& entry) const {
    return View(spans_[static_cast<size_t>(entry.id)]);
  }
  static uint64_t HeadOf(std::string_view token);

  std::string arena_;                // all tokens, one behind the other
  std::vector<Span> spans_;          // by id
  std::vector<Entry> sorted_;        // by ascending token
  std::vector<int32_t> characters_;  // by code point, up to the highest that is a token
};

}  // namespace opst::text

#endif  // OPST_TEXT_VOCABULARY_H_
