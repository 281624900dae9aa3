// What each step of a pre-tokenizer does to the pieces; reading them: pre_tokenizer.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

// Spans of one piece while it is searched from left to right.
class SpanList {
 public:
  void Start(std::string_view piece) {
    piece_ = piece;
    spans_.clear();
    done_ = 0;
  }
  void AddDelimiter(TextSpan span) {
    if (done_ < span.begin) spans_.push_back({done_, span.begin, false});
    spans_.push_back({span.begin, span.end, true});
    done_ = span.end;
  }
  void Finish() {
    if (done_ < piece_.size()) spans_.push_back({done_, piece_.size(), false});
  }
  void Invert() {
    for (MarkedSpan& span : spans_) span.delimiter = !span.delimiter;
  }
  const std::vector<MarkedSpan>& spans() const { return spans_; }

 private:
  std::string_view piece_;
  std::vector<MarkedSpan> spans_;
  size_t done_ = 0;
};

void SplitAtPattern(const TextPattern& pattern, MatchesAre matches, SplitBehavior behavior,
                    const Pieces& from, Pieces& to) {
  TextPattern::Finder finder(pattern);
  SpanList list;
  for (size_t i = 0; i < from.size(); ++i) {
    list.Start(from[i]);
    finder.Start(from[i]);
    while (const std::optional<TextSpan> match = finder.Next()) list.AddDelimiter(*match);
    list.Finish();
    if (matches == MatchesAre::kWanted) list.Invert();
    AddSplit(from[i], list.spans(), behavior, to);
  }
}

template <typename Predicate>
void SplitAtCharacters(Predicate is_delimiter, SplitBehavior behavior, const Pieces& from,
                       Pieces& to) {
  SpanList list;
  for (size_t i = 0; i < from.size(); ++i) {
    const std::string_view piece = from[i];
    list.Start(piece);
    for (size_t position = 0; position < piece.size();) {
      const size_t begin = position;
      if (is_delimiter(ReadCharacter(piece, position))) list.AddDelimiter({begin, position});
    }
    list.Finish();
    AddSplit(piece, list.spans(), behavior, to);
  }
}

Pieces SpellBytes(const Pieces& from) {
  Pieces to;
  std::string spelled;
  for (size_t i = 0; i < from.size(); ++i) {
    spelled.clear();
    AppendBytesAsCharacters(from[i], spelled);
    to.Add(spelled);
  }
  return to;
}

std::string SpacesReplaced(std::string_view text, std::string_view replacement) {
  std::string result;
  for (const char byte : text) {
    if (byte == ' ') {
      result += replacement;
    } else {
      result += byte;
    }
  }
  return result;
}

}  // namespace

void PreTokenizer::Run(std::string_view text, TextPlace place, Pieces& pieces) const {
  pieces.Clear();
  pieces.Add(text);
  for (const Step& step : steps_) {
    Pieces next;
    if (const auto* split = std::get_if<Split>(&step)) {
      SplitAtPattern(split->pattern, split->matches, split->behavior, pieces, next);
    } else if (const auto* digits = std::get_if<Digits>(&step)) {
      SplitAtCharacters(IsNumeric,
                        digits->individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
                        pieces, next);
    } else if (const auto* byte_level = std::get_if<ByteLevel>(&step)) {
      RunByteLevel(*byte_level, pieces, next);
    } else {
      RunMetaspace(std::get<Metaspace>(step), place, pieces, next);
    }
    pieces = std::move(next);
  }
}

void PreTokenizer::RunByteLevel(const ByteLevel& step, const Pieces& from, Pieces& to) {
  Pieces prefixed;
  if (step.add_prefix_space) {
    for (size_t i = 0; i < from.size(); ++i) {
      prefixed.Add(from[i][0] == ' ' ? std::string(from[i]) : " " + std::string(from[i]));
    }
  }
  const Pieces& start = step.add_prefix_space ? prefixed : from;
  if (!step.pattern) {
    to = SpellBytes(start);
    return;
  }
  Pieces words;
  SplitAtPattern(*step.pattern, MatchesAre::kDelimiters, SplitBehavior::kIsolated, start, words);
  to = SpellBytes(words);
}

void PreTokenizer::RunMetaspace(const Metaspace& step, TextPlace place, const Pieces& from,
                                Pieces& to) {
  using Prepend = Metaspace::Prepend;
  size_t length = 0;
  const char32_t delimiter = ReadCharacter(step.replacement, length);
  Pieces replaced;
  for (size_t i = 0; i < from.size(); ++i) {
    std::string text = SpacesReplaced(from[i], step.replacement);
    const bool is_first = place == TextPlace::kInputStart && i == 0;
    const bool wanted =
        step.prepend == Prepend::kAlways || (step.prepend == Prepend::kFirst && is_first);
    if (wanted && text.rfind(step.replacement, 0) != 0) text.insert(0, step.replacement);
    replaced.Add(text);
  }
  if (!step.split) {
    to = std::move(replaced);
    return;
  }
  SplitAtCharacters([delimiter](char32_t c) { return c == delimiter; },
                    SplitBehavior::kMergedWithNext, replaced, to);
}

}  // namespace opst::text
