// Reads the added tokens and cuts texts at them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "io/quote.h"
#include "text/json_document.h"
#include "text/json_fields.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

// Bounds the search: at each place of a text at most this many bytes are compared.
constexpr size_t kMaxContentBytes = 1024;
constexpr size_t kMaxTotalBytes = 16 << 20;

AddedToken ReadToken(const nlohmann::json& value, size_t index, std::string_view file) {
  Fields fields(value, Concat("added_tokens[", index, "]"), file);
  AddedToken token;
  token.content = fields.String("content");
  token.id = static_cast<int32_t>(
      fields.Integer("id", static_cast<int64_t>(JsonLimits{}.max_entries) - 1));
  token.single_word = fields.Bool("single_word");
  token.lstrip = fields.Bool("lstrip");
  token.rstrip = fields.Bool("rstrip");
  token.normalized = fields.Bool("normalized");
  token.special = fields.Bool("special");
  fields.RefuseOthers();
  if (token.content.empty() || token.content.size() > kMaxContentBytes) {
    fields.Refuse("content", "must have 1 to 1024 bytes");
  }
  return token;
}

bool WordCharacterBefore(std::string_view text, size_t position) {
  return position > 0 && IsWordCharacter(ReadCharacterBackward(text, position));
}

bool WordCharacterAt(std::string_view text, size_t position) {
  return position < text.size() && IsWordCharacter(ReadCharacter(text, position));
}

// Start of the white space that ends at `position`, not before `least`.
size_t SpaceBefore(std::string_view text, size_t position, size_t least) {
  while (position > least) {
    size_t previous = position;
    if (!IsWhitespace(ReadCharacterBackward(text, previous))) break;
    position = previous;
  }
  return position;
}

size_t SpaceBehind(std::string_view text, size_t position) {
  while (position < text.size()) {
    size_t next = position;
    if (!IsWhitespace(ReadCharacter(text, next))) break;
    position = next;
  }
  return position;
}

}  // namespace

AddedTokens AddedTokens::Read(const nlohmann::json* value, std::string_view file,
                              const Vocabulary& vocabulary, const TextNormalizer& normalizer) {
  AddedTokens added;
  added.file_ = file;
  if (value == nullptr) return added;
  OPST_CHECK_IO(value->is_array(), file, "added_tokens must be an array", value->type_name());
  auto next_id = static_cast<int32_t>(vocabulary.num_tokens());
  size_t total_bytes = 0;
  for (const nlohmann::json& element : *value) {
    AddedToken token = ReadToken(element, added.tokens_.size(), file);
    token.matched = token.normalized ? normalizer.Run(token.content) : token.content;
    OPST_CHECK_IO(!token.matched.empty() && token.matched.size() <= kMaxContentBytes, file,
                  "an added token must have 1 to 1024 bytes when normalised", token.matched.size(),
                  " for ", Quote(token.content));
    total_bytes += token.matched.size();
    OPST_CHECK_IO(total_bytes <= kMaxTotalBytes, file,
                  Concat("added_tokens must have at most ", kMaxTotalBytes, " bytes"), "more");
    added.CheckId(token, vocabulary, next_id);
    added.tokens_.push_back(std::move(token));
  }
  added.BuildTrees();
  return added;
}

void AddedTokens::CheckId(const AddedToken& token, const Vocabulary& vocabulary,
                          int32_t& next_id) const {
  const std::optional<int32_t> in_vocabulary = vocabulary.IdOf(token.content);
  const int32_t expected = in_vocabulary ? *in_vocabulary : next_id++;
  OPST_CHECK_IO(token.id == expected, file_,
                Concat("added token ", Quote(token.content), " must have id ", expected,
                       in_vocabulary ? ", its id in model.vocab" : ", the next free one"),
                token.id);
  OPST_CHECK_IO(in_vocabulary || !vocabulary.TokenOf(token.id), file_,
                Concat("added token ", Quote(token.content), " must not take an id of model.vocab"),
                token.id);
}

void AddedTokens::BuildTrees() {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  by_content_.resize(tokens_.size());
  std::iota(by_content_.begin(), by_content_.end(), size_t{0});
  std::sort(by_content_.begin(), by_content_.end(),
            [this](size_t a, size_t b) { return tokens_[a].content < tokens_[b].content; });
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    OPST_CHECK_IO((token.normalized ? normalized_ : as_given_).Insert(token.matched, i), file_,
                  "added_tokens must not hold a token twice", Quote(token.content));
    OPST_CHECK_IO(i == 0 || tokens_[i - 1].id != token.id, file_,
                  "added_tokens must not hold an id twice", token.id);
  }
}

const AddedToken* AddedTokens::Find(int32_t id) const {
  const auto found =
      std::lower_bound(tokens_.begin(), tokens_.end(), id,
                       [](const AddedToken& token, int32_t value) { return token.id < value; });
  return found != tokens_.end() && found->id == id ? &*found : nullptr;
}

const AddedToken* AddedTokens::Find(std::string_view content) const {
  const auto found = std::lower_bound(
      by_content_.begin(), by_content_.end(), content,
      [this](size_t index, std::string_view value) { return tokens_[index].content < value; });
  if (found == by_content_.end() || tokens_[*found].content != content) return nullptr;
  return &tokens_[*found];
}

int32_t AddedTokens::id_limit() const { return tokens_.empty() ? 0 : tokens_.back().id + 1; }

void AddedTokens::Split(std::string_view text, Search search,
                        std::vector<Segment>& segments) const {
  segments.clear();
  const PrefixTree& tree = search.normalized ? normalized_ : as_given_;
  size_t done = 0;       // everything before it is in a segment
  size_t space_end = 0;  // where the white space last scanned by rstrip ends
  for (size_t position = 0; position < text.size() && !tree.empty();) {
    const std::optional<PrefixTree::Match> match = tree.LongestAt(text, position);
    if (!match) {
      ++position;
      continue;
    }
    const AddedToken& token = tokens_[match->value];
    size_t begin = position;
    size_t end = position + match->length;
    position = end;
    if (search.skip_special && token.special) continue;
    if (token.single_word && (WordCharacterBefore(text, begin) || WordCharacterAt(text, end)))
      continue;
    if (token.lstrip) begin = std::max(done, SpaceBefore(text, begin, done));
    if (token.rstrip) {
      // A run of tokens that are white space themselves would otherwise scan it again and again.
      if (end >= space_end) space_end = SpaceBehind(text, end);
      end = space_end;
    }
    if (done < begin) segments.push_back({done, begin, -1});
    // A token whose place an earlier one has stripped away is lost, as in the reference.
    if (begin < end) segments.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({done, text.size(), -1});
}

}  // namespace opst::text
