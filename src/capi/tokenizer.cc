// opst_tokenizer and opst_stream_decoder: text to ids and back.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/tokenizer.h"

#include "capi/conversions.h"

namespace {

using opst::capi::Call;

opst::DecodeOptions ToCpp(const Call& call, const opst_decode_options* given) {
  const auto options = call.Options(given, opst_decode_options OPST_DECODE_OPTIONS_DEFAULT);
  return {.skip_special_tokens = call.Claim(options.skips_special_tokens, "skips_special_tokens")};
}

void Give(const Call& call, std::string_view result, char** text, size_t* length) {
  *text = call.HandOver(result);
  if (length != nullptr) *length = result.size();
}

}  // namespace

using opst::capi::Make;

opst_status opst_tokenizer_from_json(const char* json, size_t length, const char* name,
                                     opst_tokenizer** tokenizer) {
  return Make(__func__, tokenizer, [&](const Call& call) {
    call.CheckNotNull(json, "json");
    call.Create(tokenizer, opst::Tokenizer::FromJson({json, length}, call.Text(name, "name")));
  });
}

opst_status opst_tokenizer_destroy(opst_tokenizer* tokenizer) {
  return opst::capi::Destroy(__func__, tokenizer);
}

opst_status opst_tokenizer_encode(const opst_tokenizer* tokenizer, const char* text, size_t length,
                                  const opst_encode_options* options, int32_t** ids,
                                  int64_t* num_ids) {
  return Make(__func__, ids, [&](const Call& call) {
    const auto given = call.Options(options, opst_encode_options OPST_ENCODE_OPTIONS_DEFAULT);
    call.CheckNotNull(num_ids, "num_ids");
    OPST_CHECK_CALL(call, text != nullptr || length == 0, "text", "must not be NULL", "NULL");
    const std::vector<int32_t> result =
        call.Get(tokenizer, "tokenizer")
            .Encode(
                {text, length},
                {.add_special_tokens = call.Claim(given.adds_special_tokens, "adds_special_tokens"),
                 .special_tokens_as_text =
                     call.Claim(given.special_tokens_as_text, "special_tokens_as_text")});
    *ids = call.HandOver(std::span(result));
    *num_ids = static_cast<int64_t>(result.size());
  });
}

opst_status opst_tokenizer_decode(const opst_tokenizer* tokenizer, const opst_view* ids,
                                  const opst_decode_options* options, char** text, size_t* length) {
  return Make(__func__, text, [&](const Call& call) {
    const std::string result = call.Get(tokenizer, "tokenizer")
                                   .Decode(call.Values<int32_t>(ids, "ids"), ToCpp(call, options));
    Give(call, result, text, length);
  });
}

opst_status opst_tokenizer_vocab_size(const opst_tokenizer* tokenizer, int32_t* vocab_size) {
  return Make(__func__, vocab_size, [&](const Call& call) {
    *vocab_size = call.Get(tokenizer, "tokenizer").vocab_size();
  });
}

opst_status opst_tokenizer_token_text(const opst_tokenizer* tokenizer, int32_t id,
                                      const char** text, size_t* length) {
  return Make(__func__, text, [&](const Call& call) {
    call.CheckNotNull(length, "length");
    const auto found = call.Get(tokenizer, "tokenizer").TokenText(id);
    *text = found ? found->data() : nullptr;
    *length = found ? found->size() : 0;
  });
}

opst_status opst_tokenizer_id_of(const opst_tokenizer* tokenizer, const char* token, int32_t* id) {
  return Make(__func__, id, [&](const Call& call) {
    *id = call.Get(tokenizer, "tokenizer").IdOf(call.Text(token, "token")).value_or(-1);
  });
}

opst_status opst_tokenizer_is_special(const opst_tokenizer* tokenizer, int32_t id,
                                      int32_t* is_special) {
  return Make(__func__, is_special, [&](const Call& call) {
    *is_special = call.Get(tokenizer, "tokenizer").IsSpecial(id) ? 1 : 0;
  });
}

opst_status opst_stream_decoder_create(const opst_tokenizer* tokenizer,
                                       const opst_decode_options* options,
                                       opst_stream_decoder** decoder) {
  return Make(__func__, decoder, [&](const Call& call) {
    call.Create(decoder,
                opst::StreamDecoder(call.Get(tokenizer, "tokenizer"), ToCpp(call, options)));
  });
}

opst_status opst_stream_decoder_destroy(opst_stream_decoder* decoder) {
  return opst::capi::Destroy(__func__, decoder);
}

opst_status opst_stream_decoder_push(opst_stream_decoder* decoder, int32_t id, char** text,
                                     size_t* length) {
  return Make(__func__, text, [&](const Call& call) {
    Give(call, call.Get(decoder, "decoder").Push(id), text, length);
  });
}

opst_status opst_stream_decoder_flush(opst_stream_decoder* decoder, char** text, size_t* length) {
  return Make(__func__, text, [&](const Call& call) {
    Give(call, call.Get(decoder, "decoder").Flush(), text, length);
  });
}
