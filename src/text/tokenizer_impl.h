// What a Tokenizer shares with its copies and streams: the parts of one tokenizer.json.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_TOKENIZER_IMPL_H_
#define OPST_TEXT_TOKENIZER_IMPL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opst/tokenizer.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"

namespace opst::text {

class TokenizerImpl {
 public:
  TokenizerImpl(std::string_view json, std::string_view file);

  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const;

  // What the decoder is given for `id`; nothing for ids that add nothing.
  std::optional<std::string_view> DecodedToken(int32_t id, const DecodeOptions& options) const;

  std::optional<std::string_view> TokenText(int32_t id) const;
  std::optional<int32_t> IdOf(std::string_view token) const;

  const AddedTokens& added() const { return added_; }
  const Vocabulary& vocabulary() const { return model_.vocabulary(); }
  const PostProcessor& post_processor() const { return post_processor_; }
  const Decoder& decoder() const { return decoder_; }

 private:
  struct Run;
  void EncodeBetween(std::string_view text, TextPlace place, Run& run) const;

  BpeModel model_;
  TextNormalizer normalizer_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  PostProcessor post_processor_;
  Decoder decoder_;
};

}  // namespace opst::text

#endif  // OPST_TEXT_TOKENIZER_IMPL_H_
