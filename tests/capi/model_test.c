// opst_model and opst_sequence from C: token ids to logits, several sequences, memory.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

enum { N = 6 };

static opst_context* context;
static opst_model* model;
static int64_t vocab_size;
static const int32_t tokens[N] = {50, 60, 70, 80, 90, 100};

static opst_sequence* new_sequence(void) {
  opst_sequence* sequence = NULL;
  OK(opst_sequence_create(model, 16, &sequence));
  return sequence;
}

static void test_info(void) {
  opst_model_info info = OPST_MODEL_INFO_DEFAULT;
  OK(opst_model_get(model, &info));
  CHECK(strcmp(info.family, "qwen3_moe") == 0);
  CHECK(info.num_layers == 4 && info.vocab_size == 4096 && info.hidden == 256);
  CHECK(info.num_experts == 8 && info.top_k == 2 && info.max_positions == 512);
  CHECK(info.routed_expert_bytes == 4ull * 8 * 3 * 96 * 256 * 2);
  CHECK(info.weight_bytes > info.routed_expert_bytes);
  vocab_size = info.vocab_size;
  const char* text = NULL;
  size_t length = 0;
  OK(opst_model_text_file(model, "tokenizer.json", &text, &length));
  CHECK(length > 1000 && text[0] == '{');
  FAILS(opst_model_text_file(model, "poem.txt", &text, &length), OPST_IO, "poem.txt");
  CHECK(text == NULL);
}

// Cancelled behind a layer: the sequence is as it was, and goes on with the same bits.
static void cancel(void* user, int64_t layer, const opst_routing_plan_arrays* plan) {
  (void)plan;
  ++*(int*)user;
  if (layer == 1) OK(opst_context_cancel(context));
}

static void test_cancelled_forward(void) {
  const size_t row_bytes = (size_t)vocab_size * sizeof(float);
  float *wanted = calloc(1, row_bytes), *got = calloc(1, row_bytes);
  const opst_view all = opst_vector(OPST_I32, tokens, N);
  const opst_view wanted_view = opst_matrix(OPST_F32, wanted, 1, vocab_size);
  const opst_view got_view = opst_matrix(OPST_F32, got, 1, vocab_size);
  opst_sequence *plain = new_sequence(), *sequence = new_sequence();
  OK(opst_model_forward(context, model, &all, plain, NULL, &wanted_view));
  int num_layers = 0;
  opst_forward_options options = OPST_FORWARD_OPTIONS_DEFAULT;
  options.on_routing = cancel;
  options.user = &num_layers;
  FAILS(opst_model_forward(context, model, &all, sequence, &options, &got_view), OPST_CANCELLED,
        "[opst_model_forward]");
  CHECK(num_layers == 2);
  int64_t length = -1;
  OK(opst_sequence_length(sequence, &length));
  CHECK(length == 0);
  OK(opst_context_resume(context));
  OK(opst_model_forward(context, model, &all, sequence, NULL, &got_view));
  CHECK(memcmp(wanted, got, row_bytes) == 0);
  OK(opst_sequence_destroy(plain));
  OK(opst_sequence_destroy(sequence));
  free(wanted);
  free(got);
}

struct seen {
  int64_t num_layers;
  int64_t num_rows;
  int64_t num_residuals;
};

static void on_routing(void* user, int64_t layer, const opst_routing_plan_arrays* plan) {
  struct seen* seen = user;
  CHECK(layer == seen->num_layers++);
  CHECK(plan->num_tokens == N && plan->num_experts == 8 && plan->expert_ids.shape[1] == 2);
  seen->num_rows += plan->num_rows;
}

static void on_layer(void* user, int64_t layer, const opst_view* x) {
  struct seen* seen = user;
  CHECK(layer == seen->num_residuals++);
  CHECK(x->dtype == OPST_F32 && x->rank == 2 && x->shape[0] == N && x->shape[1] == 256);
}

// All tokens at once, and one after the other: the same bits.
static void test_forward(void) {
  const opst_view all = opst_vector(OPST_I32, tokens, N);
  float* at_once = calloc((size_t)vocab_size, sizeof(float));
  float* one_by_one = calloc((size_t)vocab_size, sizeof(float));
  const opst_view logits = opst_matrix(OPST_F32, at_once, 1, vocab_size);
  const opst_view other = opst_matrix(OPST_F32, one_by_one, 1, vocab_size);
  struct seen seen = {0, 0, 0};
  opst_forward_options options = OPST_FORWARD_OPTIONS_DEFAULT;
  options.on_routing = on_routing;
  options.on_layer = on_layer;
  options.user = &seen;
  opst_sequence* sequence = new_sequence();
  OK(opst_sequence_expect_length(sequence, N));
  OK(opst_model_forward(context, model, &all, sequence, &options, &logits));
  CHECK(seen.num_layers == 4 && seen.num_residuals == 4 && seen.num_rows == 4 * N * 2);
  int64_t length = 0;
  OK(opst_sequence_length(sequence, &length));
  CHECK(length == N);

  OK(opst_sequence_truncate(sequence, 2));
  for (int i = 2; i < N; ++i) {
    const opst_view token = opst_vector(OPST_I32, &tokens[i], 1);
    OK(opst_model_forward(context, model, &token, sequence, NULL, &other));
  }
  CHECK(memcmp(at_once, one_by_one, (size_t)vocab_size * sizeof(float)) == 0);

  opst_model_experts experts = OPST_MODEL_EXPERTS_DEFAULT;
  const opst_expert_name masked = {-1, 0}, outside = {9, 0};
  experts.masked = &masked;
  experts.num_masked = 1;
  options = (opst_forward_options)OPST_FORWARD_OPTIONS_DEFAULT;
  options.experts = &experts;
  OK(opst_sequence_truncate(sequence, 0));
  OK(opst_model_forward(context, model, &all, sequence, &options, &other));
  CHECK(memcmp(at_once, one_by_one, (size_t)vocab_size * sizeof(float)) != 0);
  experts.masked = &outside;
  REFUSED(opst_model_forward(context, model, &all, sequence, &options, &other), "layer");
  REFUSED(opst_sequence_truncate(sequence, 100), "[");
  REFUSED(opst_sequence_expect_length(sequence, -1), "num_tokens must not be negative");
  OK(opst_sequence_destroy(sequence));
  free(at_once);
  free(one_by_one);
}

// Two sequences side by side, each with the bits that it has alone.
static void test_forward_batch(void) {
  const opst_view first = opst_vector(OPST_I32, tokens, 2);
  const opst_view second = opst_vector(OPST_I32, tokens + 2, 4);
  opst_sequence *a = new_sequence(), *b = new_sequence(), *alone = new_sequence();
  const size_t row_bytes = (size_t)vocab_size * sizeof(float);
  float* both = calloc(2, row_bytes);
  float* one = calloc(1, row_bytes);
  const opst_view logits = opst_matrix(OPST_F32, both, 2, vocab_size);
  const opst_view one_row = opst_matrix(OPST_F32, one, 1, vocab_size);
  opst_batch_entry entries[2] = {{&first, a}, {&second, b}};
  OK(opst_model_forward_batch(context, model, entries, 2, NULL, &logits));
  OK(opst_model_forward(context, model, &second, alone, NULL, &one_row));
  CHECK(memcmp(both + vocab_size, one, row_bytes) == 0);
  entries[1].sequence = a;
  REFUSED(opst_model_forward_batch(context, model, entries, 2, NULL, &logits), "[");
  entries[1].sequence = NULL;
  REFUSED(opst_model_forward_batch(context, model, entries, 2, NULL, &logits),
          "entries.sequence must not be NULL");
  REFUSED(opst_model_forward_batch(context, model, NULL, 2, NULL, &logits),
          "entries must not be NULL");
  OK(opst_sequence_destroy(a));
  OK(opst_sequence_destroy(b));
  OK(opst_sequence_destroy(alone));
  free(both);
  free(one);
}

static void test_errors(void) {
  opst_model* other = NULL;
  FAILS(opst_model_load(context, "nowhere.opst", &other), OPST_IO, "nowhere.opst");
  CHECK(other == NULL);
  REFUSED(opst_model_load(context, NULL, &other), "path must not be NULL");
  opst_sequence* sequence = new_sequence();
  float number = 0;
  const opst_view all = opst_vector(OPST_I32, tokens, N);
  const opst_view wrong = opst_matrix(OPST_F32, &number, 1, 1);
  REFUSED(opst_model_forward(context, model, &all, sequence, NULL, &wrong), "[");
  REFUSED(opst_model_forward(context, model, &wrong, sequence, NULL, &wrong), "tokens must be i32");
  REFUSED(opst_model_forward(context, model, &all, NULL, NULL, &wrong), "sequence must not be");
  // A sequence of another model, even of the same file.
  OK(opst_model_load(context, PACKED_FILE, &other));
  REFUSED(opst_model_forward(context, other, &all, sequence, NULL, &wrong),
          "sequence must be one of this model");
  OK(opst_model_destroy(other));
  OK(opst_sequence_destroy(sequence));
  REFUSED(opst_sequence_create(model, -1, &sequence), "[");
  CHECK(sequence == NULL);
}

static void test_memory_plan(void) {
  opst_memory_plan plan = OPST_MEMORY_PLAN_DEFAULT;
  opst_memory_plan_options options = OPST_MEMORY_PLAN_OPTIONS_DEFAULT;
  options.context_length = 128;
  options.batch_size = 3;
  OK(opst_plan_memory(context, model, &options, &plan));
  // Keys and values of 4 layers with 2 heads of 64, f32.
  CHECK(plan.kv_cache_bytes == 3ull * 128 * 4 * 2 * 2 * 64 * 4);
  CHECK(plan.total_bytes == plan.weight_bytes + plan.kv_cache_bytes + plan.workspace_bytes);
  CHECK(plan.num_active_experts == 8);
  options.batch_size = 0;
  REFUSED(opst_plan_memory(context, model, &options, &plan), "[");
  REFUSED(opst_plan_memory(context, model, NULL, NULL), "plan must not be NULL");
  int64_t active = 0;
  OK(opst_estimate_active_experts(2, 10, 128, 4, &active));
  CHECK(active == 120);
  uint64_t available = 0;
  OK(opst_available_memory_bytes(&available));
  CHECK(available > 0);
  REFUSED(opst_available_memory_bytes(NULL), "output must not be NULL");
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  OK(opst_model_load(context, PACKED_FILE, &model));
  test_info();
  test_forward();
  test_forward_batch();
  test_cancelled_forward();
  test_errors();
  test_memory_plan();
  // A sequence outlives the handle of its model.
  opst_sequence* sequence = new_sequence();
  OK(opst_model_destroy(model));
  int64_t length = 1;
  OK(opst_sequence_length(sequence, &length));
  CHECK(length == 0);
  OK(opst_sequence_destroy(sequence));
  OK(opst_context_destroy(context));
  return finish();
}
