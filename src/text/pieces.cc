// Joins neighbouring spans as the behaviour says.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/pieces.h"

#include <array>
#include <utility>

namespace opst::text {

std::optional<SplitBehavior> SplitBehaviorOf(std::string_view name) {
  using Row = std::pair<std::string_view, SplitBehavior>;
  constexpr std::array<Row, 5> kNames = {
      Row{"Removed", SplitBehavior::kRemoved},
      Row{"Isolated", SplitBehavior::kIsolated},
      Row{"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      Row{"MergedWithNext", SplitBehavior::kMergedWithNext},
      Row{"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& [known, behavior] : kNames) {
    if (known == name) return behavior;
  }
  return std::nullopt;
}

void AddSplit(std::string_view text, const std::vector<MarkedSpan>& spans, SplitBehavior behavior,
              Pieces& pieces) {
  // Whether the span at `i` hangs on the one before it.
  const auto joins = [&](size_t i) {
    const bool delimiter = spans[i].delimiter;
    const bool before = spans[i - 1].delimiter;
    switch (behavior) {
      case SplitBehavior::kMergedWithPrevious:
        return delimiter && !before;
      case SplitBehavior::kMergedWithNext:
        return before && !delimiter;
      case SplitBehavior::kContiguous:
        return delimiter == before;
      default:
        return false;
    }
  };
  for (size_t i = 0; i < spans.size();) {
    const size_t begin = spans[i].begin;
    const bool removed = behavior == SplitBehavior::kRemoved && spans[i].delimiter;
    size_t end = spans[i].end;
    while (++i < spans.size() && joins(i)) end = spans[i].end;
    if (!removed) pieces.Add(text.substr(begin, end - begin));
  }
}

}  // namespace opst::text
