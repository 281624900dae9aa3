// Example 4: continues a text from C, printing it while it appears.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <opst/opst.h>
#include <stdio.h>
#include <stdlib.h>

static void check(opst_status status) {
  if (status == OPST_OK) return;
  fprintf(stderr, "%s: %s\n", opst_status_name(status), opst_last_error());
  exit(1);
}

static int32_t print_text(void* user, int64_t prompt, const char* text, size_t length) {
  (void)user, (void)prompt;
  fwrite(text, 1, length, stdout);  // whole UTF-8, as soon as it is certain
  return OPST_GO_ON;                // OPST_STOP stops
}

static void run(const opst_context* context, const char* path, const char* prompt) {
  opst_engine* engine = NULL;
  check(opst_engine_load(context, path, &engine));

  opst_sampling_options sampling = OPST_SAMPLING_OPTIONS_DEFAULT;
  sampling.temperature = 0.7f;
  sampling.seed = 1;
  opst_generate_options options = OPST_GENERATE_OPTIONS_DEFAULT;
  options.max_new_tokens = 40;
  options.sampling = &sampling;
  options.on_text = print_text;
  opst_generation* generation = NULL;
  check(opst_engine_generate(context, engine, prompt, &options, &generation));

  opst_generation_info info = OPST_GENERATION_INFO_DEFAULT;
  check(opst_generation_get(generation, &info));
  printf("\n[%d prompt tokens, %d new ones]\n", (int)info.prompt_tokens.shape[0],
         (int)info.new_tokens.shape[0]);
  check(opst_generation_destroy(generation));
  check(opst_engine_destroy(engine));
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL.opst PROMPT\n", argv[0]);
    return 2;
  }
  opst_context* context = NULL;
  check(opst_context_create(NULL, &context));
  run(context, argv[1], argv[2]);
  check(opst_context_destroy(context));
  return 0;
}
