// How a GGUF file's byte-level tokenizer cuts text before merging; reads no vocabulary.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_GGUF_PRE_TOKENIZER_H_
#define OPST_CONVERT_GGUF_PRE_TOKENIZER_H_

#include <nlohmann/json.hpp>

#include "io/gguf_metadata.h"

namespace opst {

// What the name in tokenizer.ggml.pre stands for: the settings that the tokenizer.json of the
// models of that name has, and the GGUF file itself has not.
struct GgufPreTokenizer {
  nlohmann::ordered_json steps;  // of the sequence "pre_tokenizer"
  bool is_nfc = false;
  bool ignores_merges = false;  // a word that is a token is taken whole
  bool adds_bos = false;        // unless the file says otherwise
};

// Throws kIo, naming those that are known, for any other name.
GgufPreTokenizer ReadGgufPreTokenizer(const GgufMetadata& metadata);

// Byte-level spelling; with `use_regex` it also cuts words as GPT-2 does.
nlohmann::ordered_json GgufByteLevel(bool use_regex);

}  // namespace opst

#endif  // OPST_CONVERT_GGUF_PRE_TOKENIZER_H_
