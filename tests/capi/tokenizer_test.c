// opst_tokenizer and opst_stream_decoder from C: there and back, hostile bytes, pieces.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

static opst_tokenizer* tokenizer;
static const char* const text = "Mr. Darcy \xe2\x80\x94 \xe4\xb8\xad.";

static void load(void) {
  opst_context* context = NULL;
  opst_engine* engine = NULL;
  OK(opst_context_create(NULL, &context));
  OK(opst_engine_load(context, PACKED_FILE, &engine));
  OK(opst_engine_tokenizer(engine, &tokenizer));
  opst_model* model = NULL;
  OK(opst_engine_model(engine, &model));
  // Parts of an engine outlive its handle.
  OK(opst_engine_destroy(engine));
  const char* json = NULL;
  size_t length = 0;
  OK(opst_model_text_file(model, "tokenizer.json", &json, &length));
  opst_tokenizer* same = NULL;
  OK(opst_tokenizer_from_json(json, length, "tokenizer.json", &same));
  int32_t sizes[2];
  OK(opst_tokenizer_vocab_size(same, &sizes[0]));
  OK(opst_tokenizer_vocab_size(tokenizer, &sizes[1]));
  CHECK(sizes[0] == sizes[1] && sizes[0] > 1000 && sizes[0] <= 4096);
  OK(opst_tokenizer_destroy(same));
  FAILS(opst_tokenizer_from_json(json, length / 2, "half.json", &same), OPST_IO, "half.json");
  CHECK(same == NULL);
  REFUSED(opst_tokenizer_from_json(NULL, 0, "x", &same), "json must not be NULL");
  OK(opst_model_destroy(model));
  OK(opst_context_destroy(context));
}

static void test_there_and_back(void) {
  int32_t* ids = NULL;
  int64_t num_ids = 0;
  OK(opst_tokenizer_encode(tokenizer, text, strlen(text), NULL, &ids, &num_ids));
  CHECK(num_ids > 3 && num_ids <= (int64_t)strlen(text));
  const opst_view view = opst_vector(OPST_I32, ids, num_ids);
  char* back = NULL;
  size_t length = 0;
  OK(opst_tokenizer_decode(tokenizer, &view, NULL, &back, &length));
  CHECK(strcmp(back, text) == 0 && length == strlen(text));
  OK(opst_free(back));
  OK(opst_tokenizer_decode(tokenizer, &view, NULL, &back, NULL));
  OK(opst_free(back));

  // The same from a stream: pieces are whole UTF-8 and make the text.
  opst_stream_decoder* decoder = NULL;
  OK(opst_stream_decoder_create(tokenizer, NULL, &decoder));
  char joined[200] = "";
  for (int64_t i = 0; i <= num_ids; ++i) {
    char* piece = NULL;
    if (i < num_ids) OK(opst_stream_decoder_push(decoder, ids[i], &piece, &length));
    if (i == num_ids) OK(opst_stream_decoder_flush(decoder, &piece, NULL));
    strcat(joined, piece);
    OK(opst_free(piece));
  }
  CHECK(strcmp(joined, text) == 0);
  OK(opst_stream_decoder_destroy(decoder));
  OK(opst_free(ids));
}

static void test_tokens(void) {
  const char* token = NULL;
  size_t length = 0;
  int32_t id = -2, is_special = -1;
  OK(opst_tokenizer_token_text(tokenizer, 300, &token, &length));
  CHECK(token != NULL && length > 0);
  char copy[100];
  snprintf(copy, sizeof(copy), "%.*s", (int)length, token);
  OK(opst_tokenizer_id_of(tokenizer, copy, &id));
  CHECK(id == 300);
  OK(opst_tokenizer_id_of(tokenizer, "no such token at all", &id));
  CHECK(id == -1);
  OK(opst_tokenizer_token_text(tokenizer, -5, &token, &length));
  CHECK(token == NULL && length == 0);
  OK(opst_tokenizer_is_special(tokenizer, 0, &is_special));
  CHECK(is_special == 1);
  OK(opst_tokenizer_is_special(tokenizer, 300, &is_special));
  CHECK(is_special == 0);
}

static void test_hostile_text_and_errors(void) {
  const char bytes[] = {'a', '\0', (char)0xff, 'b'};
  int32_t* ids = NULL;
  int64_t num_ids = 0;
  OK(opst_tokenizer_encode(tokenizer, bytes, sizeof(bytes), NULL, &ids, &num_ids));
  const opst_view view = opst_vector(OPST_I32, ids, num_ids);
  char* back = NULL;
  size_t length = 0;
  OK(opst_tokenizer_decode(tokenizer, &view, NULL, &back, &length));
  CHECK(length == 6 && memcmp(back,
                              "a\0\xef\xbf\xbd"
                              "b",
                              7) == 0);
  OK(opst_free(back));
  OK(opst_free(ids));
  OK(opst_tokenizer_encode(tokenizer, NULL, 0, NULL, &ids, &num_ids));
  CHECK(num_ids == 0 && ids != NULL);
  OK(opst_free(ids));

  opst_encode_options options = OPST_ENCODE_OPTIONS_DEFAULT;
  options.special_tokens_as_text = 2;
  REFUSED(opst_tokenizer_encode(tokenizer, "a", 1, &options, &ids, &num_ids), "must be 0 or 1");
  CHECK(ids == NULL);
  REFUSED(opst_tokenizer_encode(tokenizer, NULL, 1, NULL, &ids, &num_ids), "text must not be NULL");
  REFUSED(opst_tokenizer_encode(tokenizer, "a", 1, NULL, &ids, NULL), "num_ids must not be NULL");
  REFUSED(opst_tokenizer_decode(tokenizer, NULL, NULL, &back, NULL), "ids must not be NULL");
  REFUSED(opst_tokenizer_decode(NULL, &view, NULL, &back, NULL), "must not be NULL");
  opst_decode_options decode = OPST_DECODE_OPTIONS_DEFAULT;
  decode.struct_size = 4;
  opst_stream_decoder* decoder = NULL;
  REFUSED(opst_stream_decoder_create(tokenizer, &decode, &decoder), "struct_size");
  CHECK(decoder == NULL);
}

int main(void) {
  load();
  test_there_and_back();
  test_tokens();
  test_hostile_text_and_errors();
  OK(opst_tokenizer_destroy(tokenizer));
  return finish();
}
