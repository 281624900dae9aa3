// opst_engine from C: streamed text, what ends it, sampling, probabilities, batches, caches, chat.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

static opst_context* context;
static opst_engine* engine;
static const char* const prompt = "It is a truth universally acknowledged, that a single man in";

struct stream {
  char text[4000];
  int64_t num_pieces;
  int64_t stop_at;    // the piece at which the callback stops; 0 = never
  int64_t cancel_at;  // the piece at which it cancels the context; 0 = never
};

static int32_t on_text(void* user, int64_t index, const char* text, size_t length) {
  struct stream* stream = (struct stream*)user + index;
  CHECK(strlen(text) == length);
  strcat(stream->text, text);
  ++stream->num_pieces;
  if (stream->num_pieces == stream->cancel_at) OK(opst_context_cancel(context));
  return stream->num_pieces == stream->stop_at ? OPST_STOP : OPST_GO_ON;
}

static opst_generate_options new_options(struct stream* stream) {
  memset(stream, 0, sizeof(*stream));
  opst_generate_options options = OPST_GENERATE_OPTIONS_DEFAULT;
  options.max_new_tokens = 20;
  options.on_text = on_text;
  options.user = stream;
  return options;
}

static opst_generation_info info_of(const opst_generation* generation) {
  opst_generation_info info = OPST_GENERATION_INFO_DEFAULT;
  OK(opst_generation_get(generation, &info));
  return info;
}

static void test_stream_and_stops(void) {
  static struct stream stream;
  opst_generate_options options = new_options(&stream);
  opst_generation* generation = NULL;
  OK(opst_engine_generate(context, engine, prompt, &options, &generation));
  opst_generation_info info = info_of(generation);
  CHECK(info.stop_reason == OPST_STOP_MAX_NEW_TOKENS && info.new_tokens.shape[0] == 20);
  CHECK(strcmp(info.text, stream.text) == 0 && info.text_length == strlen(info.text));
  CHECK(stream.num_pieces > 5 && info.prompt_tokens.shape[0] > 5 && info.num_cached_tokens == 0);
  CHECK(strcmp(info.stop_string, "") == 0);

  // The text's second half is a stop string that is found across pieces.
  char stop[2000];
  snprintf(stop, sizeof(stop), "%.10s", info.text + info.text_length / 2);
  const char* const stops[] = {"never said", stop};
  OK(opst_generation_destroy(generation));
  options = new_options(&stream);
  options.stop_strings = stops;
  options.num_stop_strings = 2;
  OK(opst_engine_generate(context, engine, prompt, &options, &generation));
  info = info_of(generation);
  CHECK(info.stop_reason == OPST_STOP_STRING && strcmp(info.stop_string, stop) == 0);
  CHECK(strstr(info.text, stop) == NULL && strcmp(info.text, stream.text) == 0);
  OK(opst_generation_destroy(generation));

  options = new_options(&stream);
  stream.stop_at = 3;
  OK(opst_engine_generate(context, engine, prompt, &options, &generation));
  CHECK(info_of(generation).stop_reason == OPST_STOP_CANCELLED && stream.num_pieces == 3);
  OK(opst_generation_destroy(generation));
}

// Cancelled in the middle: no result, and nothing starts until the context is resumed.
static void test_cancellation(void) {
  static struct stream stream;
  opst_generate_options options = new_options(&stream);
  options.max_new_tokens = 400;
  options.ignores_end_tokens = 1;
  stream.cancel_at = 4;
  opst_generation* generation = NULL;
  FAILS(opst_engine_generate(context, engine, prompt, &options, &generation), OPST_CANCELLED,
        "[opst_engine_generate]");
  CHECK(generation == NULL && stream.num_pieces >= 4 && stream.num_pieces < 10);
  FAILS(opst_engine_generate(context, engine, prompt, NULL, &generation), OPST_CANCELLED, "");
  OK(opst_context_resume(context));
  options = new_options(&stream);
  OK(opst_engine_generate(context, engine, prompt, &options, &generation));
  OK(opst_generation_destroy(generation));
}

// The same seed gives the same text; banned tokens do not appear.
static void test_sampling(void) {
  static struct stream stream;
  opst_sampling_options sampling = OPST_SAMPLING_OPTIONS_DEFAULT;
  sampling.temperature = 1.5f;
  sampling.top_k = 50;
  sampling.seed = 9;
  char texts[3][2000];
  for (int i = 0; i < 3; ++i) {
    opst_generate_options options = new_options(&stream);
    sampling.seed = i < 2 ? 9 : 10;
    options.sampling = &sampling;
    opst_generation* generation = NULL;
    OK(opst_engine_generate(context, engine, prompt, &options, &generation));
    snprintf(texts[i], sizeof(texts[i]), "%s", info_of(generation).text);
    OK(opst_generation_destroy(generation));
  }
  CHECK(strcmp(texts[0], texts[1]) == 0 && strcmp(texts[0], texts[2]) != 0);

  opst_generate_options options = new_options(&stream);
  opst_generation* generation = NULL;
  OK(opst_engine_generate(context, engine, prompt, &options, &generation));
  const opst_logit_bias ban = {((const int32_t*)info_of(generation).new_tokens.data)[0], -INFINITY};
  OK(opst_generation_destroy(generation));
  sampling = (opst_sampling_options)OPST_SAMPLING_OPTIONS_DEFAULT;
  sampling.logit_bias = &ban;
  sampling.num_logit_bias = 1;
  options.sampling = &sampling;
  OK(opst_engine_generate(context, engine, prompt, &options, &generation));
  const opst_generation_info info = info_of(generation);
  for (int64_t i = 0; i < info.new_tokens.shape[0]; ++i) {
    CHECK(((const int32_t*)info.new_tokens.data)[i] != ban.token);
  }
  OK(opst_generation_destroy(generation));
  sampling.temperature = -1;
  REFUSED(opst_engine_generate(context, engine, prompt, &options, &generation), "temperature");
}

static void test_log_probs(void) {
  opst_generate_options options = OPST_GENERATE_OPTIONS_DEFAULT;
  options.max_new_tokens = 4;
  options.num_log_probs = 3;
  opst_generation* generation = NULL;
  OK(opst_engine_generate(context, engine, prompt, &options, &generation));
  double log_probs[4], best[3];
  int32_t tokens[3];
  const opst_view log_prob_view = opst_vector(OPST_F64, log_probs, 4);
  const opst_view best_view = opst_vector(OPST_F64, best, 3);
  const opst_view token_view = opst_vector(OPST_I32, tokens, 3);
  OK(opst_generation_log_probs(generation, &log_prob_view));
  const int32_t* new_tokens = info_of(generation).new_tokens.data;
  for (int64_t i = 0; i < 4; ++i) {
    OK(opst_generation_most_likely(generation, i, &token_view, &best_view));
    CHECK(tokens[0] == new_tokens[i] && best[0] == log_probs[i]);  // greedy
    CHECK(best[0] >= best[1] && best[1] >= best[2] && best[0] < 0);
  }
  REFUSED(opst_generation_most_likely(generation, 4, &token_view, &best_view), "index must be");
  REFUSED(opst_generation_log_probs(generation, &best_view), "log_probs must have 4 elements");
  OK(opst_generation_destroy(generation));
}

static void test_batch(void) {
  static struct stream streams[2];
  opst_generate_options options = new_options(&streams[1]);
  options = new_options(&streams[0]);
  const char* const prompts[] = {prompt, "She was"};
  opst_generation* generations[2] = {NULL, NULL};
  OK(opst_engine_generate_batch(context, engine, prompts, 2, &options, generations));
  for (int i = 0; i < 2; ++i) {
    opst_generate_options plain = OPST_GENERATE_OPTIONS_DEFAULT;
    plain.max_new_tokens = 20;
    opst_generation* alone = NULL;
    OK(opst_engine_generate(context, engine, prompts[i], &plain, &alone));
    CHECK(strcmp(info_of(alone).text, info_of(generations[i]).text) == 0);
    CHECK(strcmp(info_of(alone).text, streams[i].text) == 0);
    OK(opst_generation_destroy(alone));
    OK(opst_generation_destroy(generations[i]));
  }
  streams[0].cancel_at = streams[0].num_pieces + 2;
  FAILS(opst_engine_generate_batch(context, engine, prompts, 2, &options, generations),
        OPST_CANCELLED, "cancelled");
  CHECK(generations[0] == NULL && generations[1] == NULL);
  OK(opst_context_resume(context));
  const char* const broken[] = {prompt, NULL};
  REFUSED(opst_engine_generate_batch(context, engine, broken, 2, &options, generations),
          "prompts must not be NULL");
}

// The second call computes only what the first did not.
static void test_cache(void) {
  opst_prompt_cache* cache = NULL;
  OK(opst_prompt_cache_create(engine, 200, &cache));
  opst_generate_options options = OPST_GENERATE_OPTIONS_DEFAULT;
  options.max_new_tokens = 5;
  options.cache = cache;
  opst_generation *first = NULL, *second = NULL;
  OK(opst_engine_generate(context, engine, prompt, &options, &first));
  const opst_generation_info info = info_of(first);
  OK(opst_engine_generate_from_tokens(context, engine, &info.prompt_tokens, &options, &second));
  CHECK(strcmp(info_of(second).text, info.text) == 0);
  CHECK(info_of(second).num_cached_tokens == info.prompt_tokens.shape[0] - 1);
  OK(opst_generation_destroy(first));
  OK(opst_generation_destroy(second));
  opst_engine* other = NULL;
  OK(opst_engine_load(context, PACKED_FILE, &other));
  REFUSED(opst_engine_generate(context, other, prompt, &options, &first),
          "cache must be one of this engine");
  OK(opst_engine_destroy(other));
  OK(opst_prompt_cache_destroy(cache));
  REFUSED(opst_prompt_cache_create(NULL, 5, &cache), "engine must not be NULL");
}

static void test_chat_and_end_tokens(void) {
  opst_view end_tokens = OPST_NO_VIEW;
  OK(opst_engine_end_tokens(engine, &end_tokens));
  CHECK(end_tokens.shape[0] >= 1 && ((const int32_t*)end_tokens.data)[0] == 0);
  const opst_chat_message messages[] = {{"system", "Be brief."}, {"user", "Who are you?"}};
  char* text = NULL;
  OK(opst_engine_render_chat(engine, messages, 2, NULL, &text));
  CHECK(strcmp(text, "system: Be brief.\nuser: Who are you?\nassistant: ") == 0);
  OK(opst_free(text));
  opst_chat_options options = OPST_CHAT_OPTIONS_DEFAULT;
  options.adds_generation_prompt = 0;
  OK(opst_engine_render_chat(engine, messages, 1, &options, &text));
  CHECK(strcmp(text, "system: Be brief.\n") == 0);
  OK(opst_free(text));
  options.variables_json = "{";
  REFUSED(opst_engine_render_chat(engine, messages, 1, &options, &text), "[");
  const opst_chat_message broken = {"user", NULL};
  REFUSED(opst_engine_render_chat(engine, &broken, 1, NULL, &text), "messages.content must not");
  CHECK(text == NULL);
}

static void test_perplexity(void) {
  opst_tokenizer* tokenizer = NULL;
  OK(opst_engine_tokenizer(engine, &tokenizer));
  int32_t* ids = NULL;
  int64_t num_ids = 0;
  OK(opst_tokenizer_encode(tokenizer, prompt, strlen(prompt), NULL, &ids, &num_ids));
  const opst_view tokens = opst_vector(OPST_I32, ids, num_ids);
  opst_perplexity_options options = OPST_PERPLEXITY_OPTIONS_DEFAULT;
  opst_perplexity_result result = OPST_PERPLEXITY_RESULT_DEFAULT;
  options.window = num_ids;
  OK(opst_engine_perplexity(context, engine, &tokens, &options, &result));
  CHECK(result.num_windows == 1 && result.num_predicted == num_ids - 1);
  NEAR(result.perplexity, exp(result.nll), 1e-9);
  CHECK(result.perplexity > 1 && result.perplexity < 200 && result.experts_per_token == 2);
  options.window = 1;
  REFUSED(opst_engine_perplexity(context, engine, &tokens, &options, &result), "window");
  REFUSED(opst_engine_perplexity(context, engine, &tokens, NULL, NULL), "result must not be NULL");
  OK(opst_free(ids));
  OK(opst_tokenizer_destroy(tokenizer));
}

static void test_errors(void) {
  opst_engine* other = NULL;
  FAILS(opst_engine_load(context, "nowhere.opst", &other), OPST_IO, "nowhere.opst");
  REFUSED(opst_engine_load(context, PACKED_FILE, NULL), "output must not be NULL");
  opst_generation* generation = NULL;
  REFUSED(opst_engine_generate(context, engine, NULL, NULL, &generation), "prompt must not be");
  REFUSED(opst_engine_generate(context, NULL, prompt, NULL, &generation), "engine must not be");
  opst_generate_options options = OPST_GENERATE_OPTIONS_DEFAULT;
  options.num_log_probs = -2;
  REFUSED(opst_engine_generate(context, engine, prompt, &options, &generation), "[generate]");
  options = (opst_generate_options)OPST_GENERATE_OPTIONS_DEFAULT;
  options.num_stop_strings = 1;
  REFUSED(opst_engine_generate(context, engine, prompt, &options, &generation), "stop_strings");
  options.num_stop_strings = 0;
  options.ignores_end_tokens = 7;
  REFUSED(opst_engine_generate(context, engine, prompt, &options, &generation), "must be 0 or 1");
  REFUSED(opst_generation_get(NULL, NULL), "generation must not be NULL");
  CHECK(generation == NULL && other == NULL);
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  OK(opst_engine_load(context, PACKED_FILE, &engine));
  test_stream_and_stops();
  test_cancellation();
  test_sampling();
  test_log_probs();
  test_batch();
  test_cache();
  test_chat_and_end_tokens();
  test_perplexity();
  test_errors();
  OK(opst_engine_destroy(engine));
  OK(opst_context_destroy(context));
  return finish();
}
