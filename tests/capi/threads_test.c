// Several threads from C: two contexts on one model, one context for both, and cancelling from
// outside.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

static opst_engine* engine;
static const char* const prompt = "She was";

struct job {
  opst_context* context;
  opst_status status;
  int32_t reserved;
  char text[2000];
  char error[200];
};

static void* generate(void* argument) {
  struct job* job = argument;
  opst_generate_options options = OPST_GENERATE_OPTIONS_DEFAULT;
  options.max_new_tokens = 30;
  opst_generation* generation = NULL;
  job->status = opst_engine_generate(job->context, engine, prompt, &options, &generation);
  if (job->status != OPST_OK) return NULL;
  opst_generation_info info = OPST_GENERATION_INFO_DEFAULT;
  job->status = opst_generation_get(generation, &info);
  snprintf(job->text, sizeof(job->text), "%s", info.text);
  opst_generation_destroy(generation);
  // Each thread has its own last error.
  opst_context_num_threads(job->context, NULL);
  snprintf(job->error, sizeof(job->error), "%s", opst_last_error());
  return NULL;
}

static void run_both(opst_context* first, opst_context* second) {
  static struct job jobs[2];
  memset(jobs, 0, sizeof(jobs));
  jobs[0].context = first;
  jobs[1].context = second;
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) CHECK(pthread_create(&threads[i], NULL, generate, &jobs[i]) == 0);
  for (int i = 0; i < 2; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(jobs[0].status == OPST_OK && jobs[1].status == OPST_OK);
  CHECK(strlen(jobs[0].text) > 10 && strcmp(jobs[0].text, jobs[1].text) == 0);
  CHECK(strstr(jobs[0].error, "[opst_context_num_threads]") != NULL);
  CHECK(strcmp(opst_last_error(), "") == 0);
}

struct endless {
  opst_context* context;
  atomic_int num_pieces;
  opst_status status;
};

static int32_t count_pieces(void* user, int64_t index, const char* text, size_t length) {
  (void)index, (void)text, (void)length;
  atomic_fetch_add(&((struct endless*)user)->num_pieces, 1);
  return OPST_GO_ON;
}

static void* generate_until_cancelled(void* argument) {
  struct endless* endless = argument;
  opst_generate_options options = OPST_GENERATE_OPTIONS_DEFAULT;
  options.max_new_tokens = 100000;
  options.ignores_end_tokens = 1;
  options.on_text = count_pieces;
  options.user = endless;
  opst_generation* generation = NULL;
  endless->status = opst_engine_generate(endless->context, engine, prompt, &options, &generation);
  return NULL;
}

static void test_cancelling_from_another_thread(opst_context* context) {
  struct endless endless = {context, 0, OPST_OK};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, generate_until_cancelled, &endless) == 0);
  while (atomic_load(&endless.num_pieces) < 3) sched_yield();
  OK(opst_context_cancel(context));
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(endless.status == OPST_CANCELLED);
}

int main(void) {
  opst_context_options options = OPST_CONTEXT_OPTIONS_DEFAULT;
  options.num_threads = 2;
  opst_context *first = NULL, *second = NULL;
  OK(opst_context_create(&options, &first));
  options.num_threads = 1;
  OK(opst_context_create(&options, &second));
  OK(opst_engine_load(first, PACKED_FILE, &engine));
  run_both(first, second);
  run_both(first, first);
  test_cancelling_from_another_thread(second);
  OK(opst_engine_destroy(engine));
  OK(opst_context_destroy(first));
  OK(opst_context_destroy(second));
  return finish();
}
