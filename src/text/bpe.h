// The byte pair encoding model: one piece of text to ids; splits and normalises nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_BPE_H_
#define OPST_TEXT_BPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace opst::text {

struct JsonDocument;

class BpeModel {
 public:
  // Reads root.model with its tables. The document's vocab and merges are consumed.
  static BpeModel Read(JsonDocument& document, std::string_view file);

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Buffers of one thread, reused from piece to piece.
  class Workspace;

  // Appends the ids of `piece`, valid UTF-8: starting with characters, merges the adjacent pair of
  // lowest rank, the leftmost of several, until no pair has a rank.
  // O(n log n) for n characters: a heap over a linked list.
  void Encode(std::string_view piece, Workspace& workspace, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    int32_t right;
    int32_t rank;
    int32_t merged;
  };

  void ReadMerges(const JsonDocument& document);
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void AddCharacters(std::string_view piece, Workspace& workspace) const;
  bool AddBytes(std::string_view character, Workspace& workspace) const;
  void MergeAll(Workspace& workspace) const;
  int32_t UnknownId(std::string_view character) const;

  std::string file_;
  Vocabulary vocabulary_;
  std::vector<size_t> merge_offsets_;  // [id_limit + 1]: where the merges of a left id begin
  std::vector<Merge> merges_;          // by left id, then ascending right id
  std::vector<int32_t> byte_ids_;      // [256] of "<0x00>" to "<0xFF>", -1 = none; empty = unused
  std::optional<std::string> unknown_token_;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;  // a piece that is a token stays whole, reachable by merges or not
};

class BpeModel::Workspace {
 private:
  friend class BpeModel;
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // -1 = none; next = kMergedAway when the left neighbour took it
  };
  struct Candidate {
    int32_t rank;
    int32_t position;  // of the left symbol
    int32_t merged;
  };

  void Add(int32_t id);

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace opst::text

#endif  // OPST_TEXT_BPE_H_
