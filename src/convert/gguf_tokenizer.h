// The tokenizer files that a GGUF file's metadata amounts to, in the forms of Hugging Face; encodes
// nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_GGUF_TOKENIZER_H_
#define OPST_CONVERT_GGUF_TOKENIZER_H_

#include <vector>

#include "convert/model_source.h"
#include "io/gguf_metadata.h"

namespace opst {

// tokenizer.json, tokenizer_config.json (special tokens, chat template) and generation_config.json
// (end tokens); empty for a file without a tokenizer. Supported: `gpt2` (byte-level BPE) with the
// pre-tokenizers of the table in gguf_tokenizer.cc, and `llama` (SentencePiece BPE: merges are
// derived from pieces and scores). Throws kIo naming anything else.
std::vector<TextFile> GgufTextFiles(const GgufMetadata& metadata);

}  // namespace opst

#endif  // OPST_CONVERT_GGUF_TOKENIZER_H_
