// StopStrings: finds the first of several strings in text that arrives in pieces.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_RUNTIME_STOP_STRINGS_H_
#define OPST_RUNTIME_STOP_STRINGS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opst {

// Text is held back exactly as long as it may still turn out to be the beginning of a stop string.
class StopStrings {
 public:
  // Throws kInvalidArgument for an empty string.
  explicit StopStrings(std::vector<std::string> strings);

  // The text that is certain after `piece`. When a stop string is found, the text before it, and
  // from then on nothing. Of several, the one that begins first wins, then the one listed first.
  std::string Push(std::string_view piece);
  // What was held back and did not become a stop string.
  std::string Flush();

  // The string that was found.
  const std::optional<std::string>& found() const { return found_; }

 private:
  size_t LengthToHold() const;

  std::vector<std::string> strings_;
  std::string held_;
  std::optional<std::string> found_;
};

}  // namespace opst

#endif  // OPST_RUNTIME_STOP_STRINGS_H_
