// opst_tokenizer: text to token ids and back, of a Hugging Face tokenizer.json.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_TOKENIZER_H_
#define OPST_C_TOKENIZER_H_

#include "opst/c/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Threads: immutable, usable from several threads.
typedef struct opst_tokenizer opst_tokenizer;

// `json`: the bytes of a tokenizer.json, which are not trusted; `name`: the file's name, for error
// texts only.
OPST_API opst_status opst_tokenizer_from_json(const char* json, size_t length, const char* name,
                                              opst_tokenizer** tokenizer);
OPST_API opst_status opst_tokenizer_destroy(opst_tokenizer* tokenizer);

typedef struct opst_encode_options {
  uint32_t struct_size;
  int32_t adds_special_tokens;     // what the file puts around a text
  int32_t special_tokens_as_text;  // 1 = "<|im_end|>" in the text ends no turn
  uint32_t reserved;
} opst_encode_options;

#define OPST_ENCODE_OPTIONS_DEFAULT                                       \
  {                                                                       \
    .struct_size = sizeof(opst_encode_options), .adds_special_tokens = 1, \
    .special_tokens_as_text = 0, .reserved = 0                            \
  }

// Bytes that are no UTF-8 count as U+FFFD. The ids are the caller's: opst_free.
OPST_API opst_status opst_tokenizer_encode(const opst_tokenizer* tokenizer, const char* text,
                                           size_t length, const opst_encode_options* options,
                                           int32_t** ids, int64_t* num_ids);

typedef struct opst_decode_options {
  uint32_t struct_size;
  int32_t skips_special_tokens;
} opst_decode_options;

#define OPST_DECODE_OPTIONS_DEFAULT \
  { .struct_size = sizeof(opst_decode_options), .skips_special_tokens = 1 }

// ids [n] i32 -> valid UTF-8 with a NUL behind it, the caller's: opst_free. length may be NULL.
OPST_API opst_status opst_tokenizer_decode(const opst_tokenizer* tokenizer, const opst_view* ids,
                                           const opst_decode_options* options, char** text,
                                           size_t* length);

// Highest id + 1.
OPST_API opst_status opst_tokenizer_vocab_size(const opst_tokenizer* tokenizer,
                                               int32_t* vocab_size);
// The token as it stands in the file; lives as long as the tokenizer, ends without a NUL. NULL and
// 0 for an id without a token.
OPST_API opst_status opst_tokenizer_token_text(const opst_tokenizer* tokenizer, int32_t id,
                                               const char** text, size_t* length);
// The reverse; -1 for what is no whole token.
OPST_API opst_status opst_tokenizer_id_of(const opst_tokenizer* tokenizer, const char* token,
                                          int32_t* id);
// 1 for special tokens, which decoding leaves out, else 0.
OPST_API opst_status opst_tokenizer_is_special(const opst_tokenizer* tokenizer, int32_t id,
                                               int32_t* is_special);

// Decodes ids one by one into whole UTF-8. Threads: used by one thread at a time.
typedef struct opst_stream_decoder opst_stream_decoder;

OPST_API opst_status opst_stream_decoder_create(const opst_tokenizer* tokenizer,
                                                const opst_decode_options* options,
                                                opst_stream_decoder** decoder);
OPST_API opst_status opst_stream_decoder_destroy(opst_stream_decoder* decoder);
// What `id` makes certain, "" in the middle of a character. The caller's: opst_free.
OPST_API opst_status opst_stream_decoder_push(opst_stream_decoder* decoder, int32_t id, char** text,
                                              size_t* length);
// The rest; the decoder then stands at the beginning of a new text.
OPST_API opst_status opst_stream_decoder_flush(opst_stream_decoder* decoder, char** text,
                                               size_t* length);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_TOKENIZER_H_
