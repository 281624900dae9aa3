// Byte pair encoding with a heap of candidate pairs over a doubly linked list of symbols.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "io/quote.h"
#include "text/json_document.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

constexpr int32_t kNone = -1;
constexpr int32_t kMergedAway = -2;

std::string ByteToken(size_t byte) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  return Concat("<0x", kHex[byte >> 4], kHex[byte & 15], ">");
}

// These exist for encoders (word ends, word pieces); no causal MoE uses them.
void RefuseAffix(Fields& fields, std::string_view key) {
  if (fields.Find(key) != nullptr && !fields.String(key).empty()) {
    fields.Refuse(key, "must be null or empty: prefixes and suffixes of words are not supported");
  }
}

void RefuseDropout(Fields& fields) {
  const nlohmann::json* dropout = fields.Find("dropout");
  if (dropout != nullptr && *dropout != 0.0) {
    fields.Refuse("dropout", "must be null or 0: ids must not depend on chance");
  }
}

}  // namespace

BpeModel BpeModel::Read(JsonDocument& document, std::string_view file) {
  Fields root(document.root, "", file);
  Fields fields = root.Object("model");
  if (fields.Type() != "BPE") fields.Refuse("type", "must be BPE, the one supported model");
  BpeModel model;
  model.file_ = file;
  RefuseDropout(fields);
  RefuseAffix(fields, "continuing_subword_prefix");
  RefuseAffix(fields, "end_of_word_suffix");
  if (fields.Find("unk_token") != nullptr) model.unknown_token_ = fields.String("unk_token");
  model.fuse_unknown_ = fields.Bool("fuse_unk", false);
  model.ignore_merges_ = fields.Bool("ignore_merges", false);
  const bool byte_fallback = fields.Bool("byte_fallback", false);
  if (fields.Find("vocab") != nullptr) fields.Refuse("vocab", "must be an object of token: id");
  if (fields.Find("merges") != nullptr) fields.Refuse("merges", "must be an array of pairs");
  fields.RefuseOthers();
  OPST_CHECK_IO(!document.vocab.empty(), file, "model.vocab must hold a token", "none");

  model.vocabulary_ = Vocabulary(document.vocab, file);
  document.vocab = {};
  model.ReadMerges(document);
  document.merges = {};
  if (byte_fallback) {
    for (size_t byte = 0; byte < 256; ++byte) {
      model.byte_ids_.push_back(model.vocabulary_.IdOf(ByteToken(byte)).value_or(kNone));
    }
  }
  return model;
}

void BpeModel::ReadMerges(const JsonDocument& document) {
  const auto id_of = [this](std::string_view token, size_t rank) {
    const std::optional<int32_t> id = vocabulary_.IdOf(token);
    OPST_CHECK_IO(
        id.has_value(), file_,
        Concat("model.merges[", rank, "] must join tokens of the vocabulary to one of it"),
        Quote(token));
    return *id;
  };
  std::vector<std::pair<int32_t, Merge>> merges;  // with the left id
  merges.reserve(document.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < document.merges.size(); ++rank) {
    const auto& [left, right] = document.merges[rank];
    joined.assign(left).append(right);
    merges.push_back(
        {id_of(left, rank), {id_of(right, rank), static_cast<int32_t>(rank), id_of(joined, rank)}});
  }
  const auto pair_of = [](const auto& entry) { return std::pair(entry.first, entry.second.right); };
  std::sort(merges.begin(), merges.end(), [&](const auto& a, const auto& b) {
    return std::tuple(pair_of(a), a.second.rank) < std::tuple(pair_of(b), b.second.rank);
  });
  merge_offsets_.assign(static_cast<size_t>(vocabulary_.id_limit()) + 1, 0);
  merges_.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    // A pair that stands twice has its last rank, as in the reference.
    if (i + 1 < merges.size() && pair_of(merges[i]) == pair_of(merges[i + 1])) continue;
    merges_.push_back(merges[i].second);
    merge_offsets_[static_cast<size_t>(merges[i].first) + 1] = merges_.size();
  }
  for (size_t id = 1; id < merge_offsets_.size(); ++id) {
    merge_offsets_[id] = std::max(merge_offsets_[id], merge_offsets_[id - 1]);
  }
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const Merge* begin = merges_.data() + merge_offsets_[static_cast<size_t>(left)];
  const Merge* end = merges_.data() + merge_offsets_[static_cast<size_t>(left) + 1];
  const Merge* found = std::lower_bound(
      begin, end, right, [](const Merge& merge, int32_t value) { return merge.right < value; });
  return found != end && found->right == right ? found : nullptr;
}

void BpeModel::Workspace::Add(int32_t id) {
  const auto position = static_cast<int32_t>(symbols_.size());
  if (position > 0) symbols_.back().next = position;
  symbols_.push_back({id, position - 1, kNone});
}

int32_t BpeModel::UnknownId(std::string_view character) const {
  const std::optional<int32_t> id = vocabulary_.IdOf(*unknown_token_);
  OPST_CHECK_IO(id.has_value(), file_,
                "model.unk_token must be in the vocabulary to encode a character that is not",
                Quote(*unknown_token_), " for ", Quote(character));
  return *id;
}

bool BpeModel::AddBytes(std::string_view character, Workspace& workspace) const {
  if (byte_ids_.empty()) return false;
  std::array<int32_t, 4> ids{};
  for (size_t i = 0; i < character.size(); ++i) {
    ids[i] = byte_ids_[static_cast<uint8_t>(character[i])];
    if (ids[i] == kNone) return false;
  }
  for (size_t i = 0; i < character.size(); ++i) workspace.Add(ids[i]);
  return true;
}

void BpeModel::AddCharacters(std::string_view piece, Workspace& workspace) const {
  // An unknown token waits for the next known character, so that several can fuse. Bytes do not end
  // the waiting: that order, odd as it is, is the reference's.
  int32_t waiting = kNone;
  for (size_t position = 0; position < piece.size();) {
    const size_t begin = position;
    const int32_t id = vocabulary_.IdOfCharacter(ReadCharacter(piece, position));
    const std::string_view character = piece.substr(begin, position - begin);
    if (id != kNone) {
      if (waiting != kNone) workspace.Add(std::exchange(waiting, kNone));
      workspace.Add(id);
    } else if (!AddBytes(character, workspace) && unknown_token_) {
      if (waiting != kNone && !fuse_unknown_) workspace.Add(waiting);
      waiting = UnknownId(character);
    }
  }
  if (waiting != kNone) workspace.Add(waiting);
}

void BpeModel::MergeAll(Workspace& workspace) const {
  using Candidate = Workspace::Candidate;
  auto& symbols = workspace.symbols_;
  auto& heap = workspace.heap_;
  const auto comes_later = [](const Candidate& a, const Candidate& b) {
    return std::pair(a.rank, a.position) > std::pair(b.rank, b.position);
  };
  const auto symbol = [&](int32_t at) -> Workspace::Symbol& {
    return symbols[static_cast<size_t>(at)];
  };
  const auto candidate_at = [&](int32_t left) -> std::optional<Candidate> {
    const Merge* merge = FindMerge(symbol(left).id, symbol(symbol(left).next).id);
    if (merge == nullptr) return std::nullopt;
    return Candidate{merge->rank, left, merge->merged};
  };
  const auto push = [&](int32_t left) {
    const std::optional<Candidate> candidate = candidate_at(left);
    if (!candidate) return;
    heap.push_back(*candidate);
    std::push_heap(heap.begin(), heap.end(), comes_later);
  };
  heap.clear();
  for (int32_t left = 0; left + 1 < static_cast<int32_t>(symbols.size()); ++left) {
    if (const std::optional<Candidate> candidate = candidate_at(left)) heap.push_back(*candidate);
  }
  std::make_heap(heap.begin(), heap.end(), comes_later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Candidate top = heap.back();
    heap.pop_back();
    Workspace::Symbol& left = symbol(top.position);
    if (left.next < 0) continue;  // the last one, or merged away
    const std::optional<Candidate> now = candidate_at(top.position);
    if (!now || now->merged != top.merged) continue;  // a neighbour changed since
    Workspace::Symbol& right = symbol(left.next);
    left.id = top.merged;
    left.next = right.next;
    right.next = kMergedAway;
    if (left.next >= 0) symbol(left.next).previous = top.position;
    if (left.previous >= 0) push(left.previous);
    if (left.next >= 0) push(top.position);
  }
}

void BpeModel::Encode(std::string_view piece, Workspace& workspace,
                      std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  OPST_CHECK_ARG(piece.size() < std::numeric_limits<int32_t>::max(), "tokenizer",
                 "a text without a place to split it must have less than 2 GiB", piece.size());
  if (ignore_merges_) {
    if (const std::optional<int32_t> id = vocabulary_.IdOf(piece)) return ids.push_back(*id);
  }
  workspace.symbols_.clear();
  AddCharacters(piece, workspace);
  MergeAll(workspace);
  for (const Workspace::Symbol& symbol : workspace.symbols_) {
    if (symbol.next != kMergedAway) ids.push_back(symbol.id);
  }
}

}  // namespace opst::text
