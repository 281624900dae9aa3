// A set of byte strings that finds its longest member at a place of a text; no deletion.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_PREFIX_TREE_H_
#define OPST_TEXT_PREFIX_TREE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace opst::text {

class PrefixTree {
 public:
  PrefixTree() { first_.fill(0); }

  // Of several inserts of one key the first wins; returns false for the others. Keys are not empty.
  bool Insert(std::string_view key, size_t value);

  struct Match {
    size_t length;
    size_t value;
  };
  // The longest key that `text` has at `position`.
  std::optional<Match> LongestAt(std::string_view text, size_t position) const;

  bool empty() const { return nodes_.size() == 1; }

 private:
  static constexpr uint32_t kNoValue = 0xFFFFFFFF;
  struct Node {
    uint8_t byte = 0;
    uint32_t value = kNoValue;
    uint32_t child = 0;    // first of the next byte's nodes; 0 = none
    uint32_t sibling = 0;  // another byte in the same place
  };

  std::vector<Node> nodes_ = std::vector<Node>(1);  // [0] stands for none
  std::array<uint32_t, 256> first_;                 // nodes of the first byte
};

}  // namespace opst::text

#endif  // OPST_TEXT_PREFIX_TREE_H_
