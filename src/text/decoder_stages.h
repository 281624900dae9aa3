// The stages that a decoder is built of; each holds back only what later tokens may still change.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_DECODER_STAGES_H_
#define OPST_TEXT_DECODER_STAGES_H_

#include <cstddef>
#include <memory>

#include "text/decoder.h"

namespace opst::text {

// A space between tokens.
std::unique_ptr<TokenSink> MakeJoinStage(TokenSink& next);

// Tokens spell bytes in the byte alphabet. Holds back the beginning of a character; what is no
// UTF-8 becomes U+FFFD.
std::unique_ptr<TokenSink> MakeByteLevelStage(TokenSink& next);

// Tokens like <0xE2> are bytes. A run of them goes on when it ends: as text if the whole run is
// UTF-8, else as one U+FFFD for each byte.
std::unique_ptr<TokenSink> MakeByteFallbackStage(TokenSink& next);

struct StripRule {
  char32_t content;
  size_t start;  // at most this many leading `content` are dropped
  bool fused;    // of the whole text instead of each token
};
std::unique_ptr<TokenSink> MakeStripStage(StripRule rule, TokenSink& next);

// `replacement` becomes a space, or nothing in the first token if that one is dropped.
std::unique_ptr<TokenSink> MakeMetaspaceStage(char32_t replacement, FirstSpace first,
                                              TokenSink& next);

// Within each token. `replacement` must outlive the stage.
std::unique_ptr<TokenSink> MakeReplaceStage(const Replacement& replacement, TokenSink& next);

}  // namespace opst::text

#endif  // OPST_TEXT_DECODER_STAGES_H_
