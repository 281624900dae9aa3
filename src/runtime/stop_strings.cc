// Looks for whole strings first, then for the longest end of the text that one may begin with.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace opst {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& text : strings_) {
    OPST_CHECK_ARG(!text.empty(), "generate", "a stop string must not be empty", "\"\"");
  }
}

std::string StopStrings::Push(std::string_view piece) {
  if (found_) return {};
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& text : strings_) {
    const size_t at = held_.find(text);
    if (at >= first) continue;
    first = at;
    found_ = text;
  }
  const size_t certain = found_ ? first : held_.size() - LengthToHold();
  std::string result = held_.substr(0, certain);
  held_ = found_ ? std::string() : held_.substr(certain);
  return result;
}

size_t StopStrings::LengthToHold() const {
  size_t longest = 0;
  for (const std::string& text : strings_) {
    for (size_t length = std::min(text.size() - 1, held_.size()); length > longest; --length) {
      if (std::string_view(held_).ends_with(std::string_view(text).substr(0, length))) {
        longest = length;
      }
    }
  }
  return longest;
}

std::string StopStrings::Flush() { return std::exchange(held_, {}); }

}  // namespace opst
