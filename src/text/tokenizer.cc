// The public tokenizer and stream decoder over text::TokenizerImpl.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "tokenizer";

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const text::TokenizerImpl> impl) : impl_(std::move(impl)) {}

Tokenizer Tokenizer::FromJson(std::string_view json, std::string_view name) {
  return NamingOutOfMemory(
      name, [&] { return Tokenizer(std::make_shared<const text::TokenizerImpl>(json, name)); });
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  return NamingOutOfMemory(kWhere, [&] { return impl_->Encode(text, options); });
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  return NamingOutOfMemory(kWhere, [&] {
    const std::unique_ptr<text::DecodePipeline> pipeline = impl_->decoder().Start();
    for (const int32_t id : ids) {
      if (const auto token = impl_->DecodedToken(id, options)) pipeline->Push(*token);
    }
    pipeline->Finish();
    return pipeline->Take();
  });
}

int32_t Tokenizer::vocab_size() const {
  return std::max(impl_->vocabulary().id_limit(), impl_->added().id_limit());
}

std::optional<std::string_view> Tokenizer::TokenText(int32_t id) const {
  return impl_->TokenText(id);
}

std::optional<int32_t> Tokenizer::IdOf(std::string_view token) const { return impl_->IdOf(token); }

bool Tokenizer::IsAdded(int32_t id) const { return impl_->added().Find(id) != nullptr; }

bool Tokenizer::IsSpecial(int32_t id) const {
  const text::AddedToken* token = impl_->added().Find(id);
  return token != nullptr && token->special;
}

std::span<const int32_t> Tokenizer::prefix_ids() const { return impl_->post_processor().prefix(); }
std::span<const int32_t> Tokenizer::suffix_ids() const { return impl_->post_processor().suffix(); }

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options)
    : impl_(tokenizer.impl_), pipeline_(impl_->decoder().Start()), options_(options) {}
StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, std::span<const int32_t> prompt,
                             const DecodeOptions& options)
    : StreamDecoder(tokenizer, options) {
  size_t given = 0;
  for (const int32_t id : prompt) given += Push(id).size();
  known_ = tokenizer.Decode(prompt, options).substr(given);
}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::Push(int32_t id) {
  if (const auto token = impl_->DecodedToken(id, options_)) pipeline_->Push(*token);
  return TakeNew();
}

std::string StreamDecoder::TakeNew() {
  std::string text = pipeline_->Take();
  size_t common = 0;
  while (common < text.size() && common < known_.size()) {
    size_t behind = common;
    size_t behind_known = common;
    if (text::ReadCharacter(text, behind) != text::ReadCharacter(known_, behind_known)) break;
    common = behind;
  }
  if (common < text.size()) {
    known_.clear();
  } else {
    known_.erase(0, common);
  }
  return text.erase(0, common);
}

std::string StreamDecoder::Flush() {
  pipeline_->Finish();
  std::string rest = TakeNew();
  known_.clear();
  pipeline_ = impl_->decoder().Start();
  return rest;
}

}  // namespace opst
