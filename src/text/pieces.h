// A text cut into pieces, and the ways to treat a delimiter while cutting; no patterns of its own.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_PIECES_H_
#define OPST_TEXT_PIECES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opst::text {

// The pieces stand one behind the other in one buffer; none is empty.
class Pieces {
 public:
  void Add(std::string_view piece) {
    if (piece.empty()) return;
    text_ += piece;
    ends_.push_back(text_.size());
  }
  void Clear() {
    text_.clear();
    ends_.clear();
  }

  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(text_).substr(begin, ends_[index] - begin);
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;
};

// What becomes of the delimiters, e.g. "-" in "a--b".
enum class SplitBehavior {
  kRemoved,             // "a", "b"
  kIsolated,            // "a", "-", "-", "b"
  kMergedWithPrevious,  // "a-", "-", "b"
  kMergedWithNext,      // "a", "-", "-b"
  kContiguous,          // "a", "--", "b"
};

// "Removed", "Isolated" and so on, as they stand in a file.
std::optional<SplitBehavior> SplitBehaviorOf(std::string_view name);

struct MarkedSpan {
  size_t begin, end;
  bool delimiter;
};

// `spans` cover `text` without gaps; the result is added to `pieces`.
void AddSplit(std::string_view text, const std::vector<MarkedSpan>& spans, SplitBehavior behavior,
              Pieces& pieces);

}  // namespace opst::text

#endif  // OPST_TEXT_PIECES_H_
