// Builds the tables of the vocabulary and refuses ambiguous ones.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary.h"

#include <algorithm>

#include "base/check.h"
#include "io/quote.h"
#include "text/utf8.h"

namespace opst::text {

uint64_t Vocabulary::HeadOf(std::string_view token) {
  uint64_t head = 0;
  for (size_t i = 0; i < sizeof(head); ++i) {
    head = head << 8 | (i < token.size() ? static_cast<uint8_t>(token[i]) : 0);
  }
  return head;
}

Vocabulary::Vocabulary(const std::vector<std::pair<std::string, int32_t>>& tokens,
                       std::string_view file) {
  size_t arena_bytes = 0;
  int32_t limit = 0;
  for (const auto& [token, id] : tokens) {
    arena_bytes += token.size();
    limit = std::max(limit, id + 1);
  }
  arena_.reserve(arena_bytes);
  spans_.resize(static_cast<size_t>(limit));
  sorted_.reserve(tokens.size());
  for (const auto& [token, id] : tokens) {
    Span& span = spans_[static_cast<size_t>(id)];
    OPST_CHECK_IO(!span.used, file, "model.vocab must give each id to one token", Quote(View(span)),
                  " and ", Quote(token), " for id ", id);
    span = {arena_.size(), token.size(), true};
    arena_ += token;
    sorted_.push_back({HeadOf(token), id});
  }
  std::sort(sorted_.begin(), sorted_.end(), [this](const Entry& a, const Entry& b) {
    return a.head != b.head ? a.head < b.head : View(a) < View(b);
  });
  const auto twice = std::adjacent_find(
      sorted_.begin(), sorted_.end(),
      [this](const Entry& a, const Entry& b) { return a.head == b.head && View(a) == View(b); });
  OPST_CHECK_IO(twice == sorted_.end(), file, "model.vocab must not hold a token twice",
                Quote(View(*twice)), " with ids ", twice->id, " and ", (twice + 1)->id);
  for (const auto& [token, id] : tokens) {
    if (token.empty()) continue;
    size_t length = 0;
    const char32_t character = ReadCharacter(token, length);
    if (length != token.size()) continue;
    if (character >= characters_.size()) characters_.resize(character + 1, -1);
    characters_[character] = id;
  }
}

std::optional<std::string_view> Vocabulary::TokenOf(int32_t id) const {
  if (id < 0 || id >= id_limit()) return std::nullopt;
  const Span& span = spans_[static_cast<size_t>(id)];
  if (!span.used) return std::nullopt;
  return View(span);
}

std::optional<int32_t> Vocabulary::IdOf(std::string_view token) const {
  const uint64_t head = HeadOf(token);
  const auto found = std::lower_bound(
      sorted_.begin(), sorted_.end(), token, [&](const Entry& entry, std::string_view value) {
        return entry.head != head ? entry.head < head : View(entry) < value;
      });
  if (found == sorted_.end() || found->head != head || View(*found) != token) return std::nullopt;
  return found->id;
}

}  // namespace opst::text
