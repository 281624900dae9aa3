// opst_engine: a model with its tokenizer, ready to generate text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_ENGINE_H_
#define OPST_C_ENGINE_H_

#include "opst/c/model.h"
#include "opst/c/sampling.h"
#include "opst/c/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

// Threads: usable from several threads; callbacks run on the calling thread.
typedef struct opst_engine opst_engine;

// A packed file with its tokenizer.
OPST_API opst_status opst_engine_load(const opst_context* context, const char* path,
                                      opst_engine** engine);
OPST_API opst_status opst_engine_destroy(opst_engine* engine);
// Handles of the engine's parts, to be destroyed like others.
OPST_API opst_status opst_engine_model(const opst_engine* engine, opst_model** model);
OPST_API opst_status opst_engine_tokenizer(const opst_engine* engine, opst_tokenizer** tokenizer);
// [n] i32, every token that ends a text; lives as long as the engine.
OPST_API opst_status opst_engine_end_tokens(const opst_engine* engine, opst_view* tokens);

typedef struct opst_chat_message {
  const char* role;  // "system", "user", "assistant"
  const char* content;
} opst_chat_message;

typedef struct opst_chat_options {
  uint32_t struct_size;
  int32_t adds_generation_prompt;  // 1 = the text ends where the answer begins
  const char* tools_json;          // a JSON list; NULL = none
  const char* variables_json;      // a JSON object of more variables; NULL = none
} opst_chat_options;

#define OPST_CHAT_OPTIONS_DEFAULT                                                              \
  {                                                                                            \
    .struct_size = sizeof(opst_chat_options), .adds_generation_prompt = 1, .tools_json = NULL, \
    .variables_json = NULL                                                                     \
  }

// The messages as the checkpoint's chat template writes them. The text is the caller's: opst_free.
// Errors: OPST_IO for a model without a template, or one that refuses the messages.
OPST_API opst_status opst_engine_render_chat(const opst_engine* engine,
                                             const opst_chat_message* messages,
                                             int64_t num_messages, const opst_chat_options* options,
                                             char** text);

// Keys and values of a text that goes on; never changes a result. Threads: used by one call at a
// time.
typedef struct opst_prompt_cache opst_prompt_cache;

OPST_API opst_status opst_prompt_cache_create(const opst_engine* engine, int64_t capacity,
                                              opst_prompt_cache** cache);
OPST_API opst_status opst_prompt_cache_destroy(opst_prompt_cache* cache);

// What a text callback returns.
enum { OPST_GO_ON = 0, OPST_STOP = 1 };
// Gets whole UTF-8 as soon as it is certain, with a NUL behind it; `prompt` is 0 unless several are
// continued at once.
typedef int32_t (*opst_text_callback)(void* user, int64_t prompt, const char* text, size_t length);
typedef void (*opst_progress_callback)(void* user, int64_t done, int64_t total);

typedef struct opst_generate_options {
  uint32_t struct_size;
  int32_t ignores_end_tokens;
  int64_t max_new_tokens;
  const opst_sampling_options* sampling;  // NULL = the most likely token each time
  const char* const* stop_strings;        // [num_stop_strings]; the text ends before one
  int64_t num_stop_strings;
  int64_t context_length;             // tokens of prompt and answer at most; 0 = no limit
  int64_t num_log_probs;              // most likely tokens to keep for each new one; -1 = none
  int64_t prefill_chunk;              // prompt tokens per pass
  const opst_model_experts* experts;  // NULL = the model's routing
  opst_prompt_cache* cache;           // of the same engine; NULL = none
  opst_text_callback on_text;         // NULL = not wanted
  opst_progress_callback on_prefill;  // prompt tokens done, and all; NULL = not wanted
  opst_routing_callback on_routing;   // NULL = not wanted
  void* user;                         // first argument of the callbacks
} opst_generate_options;

#define OPST_GENERATE_OPTIONS_DEFAULT                                                             \
  {                                                                                               \
    .struct_size = sizeof(opst_generate_options), .ignores_end_tokens = 0, .max_new_tokens = 128, \
    .sampling = NULL, .stop_strings = NULL, .num_stop_strings = 0, .context_length = 0,           \
    .num_log_probs = -1, .prefill_chunk = 512, .experts = NULL, .cache = NULL, .on_text = NULL,   \
    .on_prefill = NULL, .on_routing = NULL, .user = NULL                                          \
  }

// What was generated. Threads: immutable, usable from several threads.
typedef struct opst_generation opst_generation;

// Continues `prompt`, a text with a NUL behind it.
OPST_API opst_status opst_engine_generate(const opst_context* context, const opst_engine* engine,
                                          const char* prompt, const opst_generate_options* options,
                                          opst_generation** generation);
// The same for a prompt of tokens [n] i32, to which nothing is added.
OPST_API opst_status opst_engine_generate_from_tokens(const opst_context* context,
                                                      const opst_engine* engine,
                                                      const opst_view* prompt,
                                                      const opst_generate_options* options,
                                                      opst_generation** generation);
// Several prompts at once -> generations[num_prompts], each as if alone. No cache.
OPST_API opst_status opst_engine_generate_batch(const opst_context* context,
                                                const opst_engine* engine,
                                                const char* const* prompts, int64_t num_prompts,
                                                const opst_generate_options* options,
                                                opst_generation** generations);
OPST_API opst_status opst_generation_destroy(opst_generation* generation);

typedef int32_t opst_stop_reason;
enum {
  OPST_STOP_END_TOKEN = 0,
  OPST_STOP_STRING = 1,
  OPST_STOP_MAX_NEW_TOKENS = 2,
  OPST_STOP_CONTEXT_LENGTH = 3,
  OPST_STOP_CANCELLED = 4  // by the text callback
};
// "end token", "stop string", ...
OPST_API opst_status opst_stop_reason_name(opst_stop_reason reason, const char** name);

// Texts and arrays live as long as the generation.
typedef struct opst_generation_info {
  uint32_t struct_size;
  opst_stop_reason stop_reason;
  const char* text;  // of the new tokens, without end token and stop string
  uint64_t text_length;
  const char* stop_string;    // the one that was found, or ""
  opst_view prompt_tokens;    // [n] i32
  opst_view new_tokens;       // [m] i32, the end token included
  int64_t num_cached_tokens;  // of the prompt: not computed again
  double prefill_seconds;
  double decode_seconds;
} opst_generation_info;

#define OPST_GENERATION_INFO_DEFAULT                                                               \
  {                                                                                                \
    .struct_size = sizeof(opst_generation_info), .stop_reason = 0, .text = NULL, .text_length = 0, \
    .stop_string = NULL, .prompt_tokens = OPST_NO_VIEW, .new_tokens = OPST_NO_VIEW,                \
    .num_cached_tokens = 0, .prefill_seconds = 0, .decode_seconds = 0                              \
  }

OPST_API opst_status opst_generation_get(const opst_generation* generation,
                                         opst_generation_info* info);
// With num_log_probs >= 0: ln p of each new token -> log_probs [m] f64.
OPST_API opst_status opst_generation_log_probs(const opst_generation* generation,
                                               const opst_view* log_probs);
// The num_log_probs most likely ones of new token `index`, best first -> tokens [n] i32 and
// log_probs [n] f64.
OPST_API opst_status opst_generation_most_likely(const opst_generation* generation, int64_t index,
                                                 const opst_view* tokens,
                                                 const opst_view* log_probs);

typedef struct opst_perplexity_options {
  uint32_t struct_size;
  int32_t decodes;  // 1 = one token per pass, 0 = whole windows; the same result
  int64_t window;
  int64_t batch_size;
  const opst_model_experts* experts;  // NULL = the model's routing
} opst_perplexity_options;

#define OPST_PERPLEXITY_OPTIONS_DEFAULT                                                           \
  {                                                                                               \
    .struct_size = sizeof(opst_perplexity_options), .decodes = 0, .window = 256, .batch_size = 1, \
    .experts = NULL                                                                               \
  }

typedef struct opst_perplexity_result {
  uint32_t struct_size;
  uint32_t reserved;
  double perplexity;
  double nll;  // mean -ln p of a predicted token
  int64_t num_windows;
  int64_t num_predicted;
  double experts_per_token;
} opst_perplexity_result;

#define OPST_PERPLEXITY_RESULT_DEFAULT                                                       \
  {                                                                                          \
    .struct_size = sizeof(opst_perplexity_result), .reserved = 0, .perplexity = 0, .nll = 0, \
    .num_windows = 0, .num_predicted = 0, .experts_per_token = 0                             \
  }

// tokens [n] i32, cut into windows.
OPST_API opst_status opst_engine_perplexity(const opst_context* context, const opst_engine* engine,
                                            const opst_view* tokens,
                                            const opst_perplexity_options* options,
                                            opst_perplexity_result* result);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_ENGINE_H_
