// Puts the parts of a tokenizer.json together: text, added tokens, normalizer, pieces, model, ids.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_impl.h"

#include <utility>

#include "text/json_document.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace opst::text {

TokenizerImpl::TokenizerImpl(std::string_view json, std::string_view file) {
  JsonDocument document = ReadJsonDocument(json, file);
  model_ = BpeModel::Read(document, file);
  Fields root(document.root, "", file);
  root.Find("model");
  root.Find("truncation");  // wishes of a caller that the file happens to carry
  root.Find("padding");
  if (root.Find("version") != nullptr && root.String("version") != "1.0") {
    root.Refuse("version", "must be 1.0");
  }
  normalizer_ = TextNormalizer::Read(root.Find("normalizer"), file);
  added_ = AddedTokens::Read(root.Find("added_tokens"), file, model_.vocabulary(), normalizer_);
  pre_tokenizer_ = PreTokenizer::Read(root.Find("pre_tokenizer"), file);
  post_processor_ = PostProcessor::Read(root.Find("post_processor"), file,
                                        [this](int32_t id) { return TokenText(id).has_value(); });
  decoder_ = Decoder::Read(root.Find("decoder"), file);
  root.RefuseOthers();
}

// Buffers and results of one Encode.
struct TokenizerImpl::Run {
  const EncodeOptions& options;
  std::vector<int32_t> ids;
  BpeModel::Workspace workspace;
  Pieces pieces;
  std::vector<AddedTokens::Segment> normalized_segments;
};

std::vector<int32_t> TokenizerImpl::Encode(std::string_view text,
                                           const EncodeOptions& options) const {
  std::string repaired;
  if (!IsValidUtf8(text)) text = repaired = RepairUtf8(text);

  Run run{options, {}, {}, {}, {}};
  if (options.add_special_tokens) run.ids = post_processor_.prefix();
  std::vector<AddedTokens::Segment> segments;
  added_.Split(text, {false, options.special_tokens_as_text}, segments);
  for (const AddedTokens::Segment& segment : segments) {
    if (segment.id >= 0) {
      run.ids.push_back(segment.id);
    } else {
      const std::string_view between = text.substr(segment.begin, segment.end - segment.begin);
      EncodeBetween(between, segment.begin == 0 ? TextPlace::kInputStart : TextPlace::kInside, run);
    }
  }
  if (options.add_special_tokens) {
    const std::vector<int32_t>& suffix = post_processor_.suffix();
    run.ids.insert(run.ids.end(), suffix.begin(), suffix.end());
  }
  return std::move(run.ids);
}

void TokenizerImpl::EncodeBetween(std::string_view text, TextPlace place, Run& run) const {
  std::string normalized;
  if (!normalizer_.empty()) text = normalized = normalizer_.Run(text);
  added_.Split(text, {true, run.options.special_tokens_as_text}, run.normalized_segments);
  for (const AddedTokens::Segment& segment : run.normalized_segments) {
    if (segment.id >= 0) {
      run.ids.push_back(segment.id);
      continue;
    }
    pre_tokenizer_.Run(text.substr(segment.begin, segment.end - segment.begin),
                       segment.begin == 0 ? place : TextPlace::kInside, run.pieces);
    for (size_t i = 0; i < run.pieces.size(); ++i) {
      model_.Encode(run.pieces[i], run.workspace, run.ids);
    }
  }
}

std::optional<std::string_view> TokenizerImpl::DecodedToken(int32_t id,
                                                            const DecodeOptions& options) const {
  const AddedToken* token = added_.Find(id);
  if (token == nullptr) return vocabulary().TokenOf(id);
  if (token->special) {
    if (options.skip_special_tokens) return std::nullopt;
    return token->content;
  }
  // The decoder undoes the normalizer, so it is given what the normalizer made.
  return token->matched;
}

std::optional<std::string_view> TokenizerImpl::TokenText(int32_t id) const {
  if (const AddedToken* token = added_.Find(id)) return token->content;
  return vocabulary().TokenOf(id);
}

std::optional<int32_t> TokenizerImpl::IdOf(std::string_view token) const {
  if (const AddedToken* added = added_.Find(token)) return added->id;
  return vocabulary().IdOf(token);
}

}  // namespace opst::text
