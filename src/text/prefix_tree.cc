// Insertion and longest match of the prefix tree.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/prefix_tree.h"

namespace opst::text {

bool PrefixTree::Insert(std::string_view key, size_t value) {
  const auto add_node = [this](uint8_t byte, uint32_t sibling) {
    nodes_.push_back({byte, kNoValue, 0, sibling});
    return static_cast<uint32_t>(nodes_.size() - 1);
  };
  const auto first_byte = static_cast<uint8_t>(key[0]);
  if (first_[first_byte] == 0) first_[first_byte] = add_node(first_byte, 0);
  uint32_t node = first_[first_byte];
  for (const char next : key.substr(1)) {
    const auto byte = static_cast<uint8_t>(next);
    uint32_t child = nodes_[node].child;
    while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
    if (child == 0) {
      child = add_node(byte, nodes_[node].child);
      nodes_[node].child = child;
    }
    node = child;
  }
  if (nodes_[node].value != kNoValue) return false;
  nodes_[node].value = static_cast<uint32_t>(value);
  return true;
}

std::optional<PrefixTree::Match> PrefixTree::LongestAt(std::string_view text,
                                                       size_t position) const {
  std::optional<Match> longest;
  uint32_t node = first_[static_cast<uint8_t>(text[position])];
  for (size_t length = 1; node != 0; ++length) {
    if (nodes_[node].value != kNoValue) longest = Match{length, nodes_[node].value};
    if (position + length == text.size()) break;
    const auto byte = static_cast<uint8_t>(text[position + length]);
    node = nodes_[node].child;
    while (node != 0 && nodes_[node].byte != byte) node = nodes_[node].sibling;
  }
  return longest;
}

}  // namespace opst::text
