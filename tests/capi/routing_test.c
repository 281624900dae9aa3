// Plans from ids, maps, hashes and expert choice, their arrays and text, counts and re-routing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

static opst_context* context;

enum { T = 5, K = 2, E = 3 };
static const int32_t ids[T * K] = {2, 0, 1, 2, 0, -1, 2, 1, 2, 0};
static const float weights[T * K] = {.6f, .4f, .7f, .3f, 1, 0, .5f, .5f, .9f, .1f};

static opst_routing_plan_arrays arrays_of(const opst_routing_plan* plan) {
  opst_routing_plan_arrays arrays = OPST_ROUTING_PLAN_ARRAYS_DEFAULT;
  OK(opst_routing_plan_get(plan, &arrays));
  return arrays;
}

// A counting sort in plain loops: rows by expert, then by slot.
static void check_sorted(const opst_routing_plan_arrays* arrays, const int32_t* wanted_ids,
                         int64_t num_slots) {
  const int32_t* row_to_slot = arrays->row_to_slot.data;
  const int32_t* slot_to_row = arrays->slot_to_row.data;
  const int64_t* counts = arrays->expert_counts.data;
  const int64_t* offsets = arrays->expert_offsets.data;
  int64_t row = 0;
  for (int32_t expert = 0; expert < arrays->num_experts; ++expert) {
    CHECK(offsets[expert] == row);
    for (int32_t slot = 0; slot < num_slots; ++slot) {
      if (wanted_ids[slot] != expert) continue;
      CHECK(row_to_slot[row] == slot);
      CHECK(slot_to_row[slot] == row);
      ++row;
    }
    CHECK(counts[expert] == row - offsets[expert]);
  }
  CHECK(offsets[arrays->num_experts] == row && arrays->num_rows == row);
}

static void test_plan_from_ids(void) {
  const opst_view id_view = opst_matrix(OPST_I32, ids, T, K);
  const opst_view weight_view = opst_matrix(OPST_F32, weights, T, K);
  opst_routing_plan* plan = NULL;
  OK(opst_routing_plan_build(context, &id_view, &weight_view, E, NULL, &plan));
  const opst_routing_plan_arrays arrays = arrays_of(plan);
  CHECK(arrays.num_tokens == T && arrays.top_k == K && arrays.num_experts == E);
  CHECK(arrays.num_dropped == 0 && arrays.num_empty_rows == 0);
  CHECK(memcmp(arrays.expert_ids.data, ids, sizeof(ids)) == 0);
  CHECK(memcmp(arrays.expert_weights.data, weights, sizeof(weights)) == 0);
  CHECK(arrays.expert_ids.dtype == OPST_I32 && arrays.expert_ids.rank == 2);
  CHECK(arrays.expert_offsets.dtype == OPST_I64 && arrays.expert_offsets.shape[0] == E + 1);
  check_sorted(&arrays, ids, T * K);

  char* text = NULL;
  OK(opst_routing_plan_format_csr(plan, 2, &text));
  CHECK(strstr(text, "expert 0 [0,3): 0.1:0.4 2.0:1") != NULL);
  OK(opst_free(text));
  REFUSED(opst_routing_plan_format_csr(NULL, 2, &text), "plan must not be NULL");
  CHECK(text == NULL);
  OK(opst_routing_plan_destroy(plan));

  REFUSED(opst_routing_plan_build(context, &weight_view, &weight_view, E, NULL, &plan), "i32");
  REFUSED(opst_routing_plan_build(context, &id_view, &weight_view, 2, NULL, &plan),
          "invalid expert index 2");
}

// Capacity 1: only the first slot of an expert, in (choice, token) order, keeps its row.
static void test_capacity_padding_and_active_experts(void) {
  const opst_view id_view = opst_matrix(OPST_I32, ids, T, K);
  const opst_view weight_view = opst_matrix(OPST_F32, weights, T, K);
  opst_routing_plan_options options = OPST_ROUTING_PLAN_OPTIONS_DEFAULT;
  options.capacity_factor = 0.1;
  options.min_capacity = 1;
  opst_routing_plan* plan = NULL;
  OK(opst_routing_plan_build(context, &id_view, &weight_view, E, &options, &plan));
  opst_routing_plan_arrays arrays = arrays_of(plan);
  const int32_t kept[T * K] = {2, -1, 1, -1, 0, -1, -1, -1, -1, -1};
  check_sorted(&arrays, kept, T * K);
  CHECK(arrays.num_dropped == 6);
  OK(opst_routing_plan_destroy(plan));

  const uint8_t is_padding[T] = {1, 0, 0, 0, 1};
  const opst_view padding = opst_vector(OPST_BOOL, is_padding, T);
  options = (opst_routing_plan_options)OPST_ROUTING_PLAN_OPTIONS_DEFAULT;
  options.is_padding = &padding;
  options.active_begin = 1;
  options.active_end = 3;
  OK(opst_routing_plan_build(context, &id_view, &weight_view, E, &options, &plan));
  arrays = arrays_of(plan);
  const int32_t active[T * K] = {-1, -1, 1, 2, -1, -1, 2, 1, -1, -1};
  check_sorted(&arrays, active, T * K);
  OK(opst_routing_plan_destroy(plan));

  options.pads_to_capacity = 1;
  REFUSED(opst_routing_plan_build(context, &id_view, &weight_view, E, &options, &plan), "capacity");
  const opst_view short_padding = opst_vector(OPST_U8, is_padding, T - 1);
  options.pads_to_capacity = 0;
  options.is_padding = &short_padding;
  REFUSED(opst_routing_plan_build(context, &id_view, &weight_view, E, &options, &plan), "padding");
  const opst_view wrong_padding = opst_vector(OPST_I32, ids, T);
  options.is_padding = &wrong_padding;
  REFUSED(opst_routing_plan_build(context, &id_view, &weight_view, E, &options, &plan),
          "is_padding must be u8");
}

static void test_plan_from_map(void) {
  const uint8_t map[T * E] = {1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 1};
  const opst_view map_view = opst_matrix(OPST_BOOL, map, T, E);
  opst_routing_plan* plan = NULL;
  OK(opst_routing_plan_build_from_map(context, &map_view, NULL, NULL, &plan));
  const opst_routing_plan_arrays arrays = arrays_of(plan);
  const int32_t wanted[T * K] = {0, 2, 1, 2, 0, -1, 1, 2, 0, 2};
  CHECK(arrays.top_k == K && memcmp(arrays.expert_ids.data, wanted, sizeof(wanted)) == 0);
  CHECK(((const float*)arrays.expert_weights.data)[0] == 1);
  check_sorted(&arrays, wanted, T * K);
  OK(opst_routing_plan_destroy(plan));
  const opst_view wrong = opst_vector(OPST_BOOL, map, T);
  REFUSED(opst_routing_plan_build_from_map(context, &wrong, NULL, NULL, &plan), "[");
}

static void test_hash_routing(void) {
  const int32_t table[] = {2, 0, 1, 2, 0, 1};  // token id -> two experts
  const int32_t tokens[] = {1, 0, -1, 2};
  const opst_view token_view = opst_vector(OPST_I32, tokens, 4);
  const opst_view table_view = opst_matrix(OPST_I32, table, 3, K);
  opst_hash_routing_options options = OPST_HASH_ROUTING_OPTIONS_DEFAULT;
  options.num_experts = E;
  options.top_k = K;
  options.table = &table_view;
  opst_routing_plan* plan = NULL;
  OK(opst_route_by_hash(context, &token_view, &options, NULL, &plan));
  const opst_routing_plan_arrays arrays = arrays_of(plan);
  const int32_t wanted[] = {1, 2, 2, 0, -1, -1, 0, 1};
  CHECK(memcmp(arrays.expert_ids.data, wanted, sizeof(wanted)) == 0);
  CHECK(((const float*)arrays.expert_weights.data)[0] == 0.5f);
  OK(opst_routing_plan_destroy(plan));
  options.top_k = 4;
  options.table = NULL;
  REFUSED(opst_route_by_hash(context, &token_view, &options, NULL, &plan), "[hash_routing]");
  REFUSED(opst_route_by_hash(context, &token_view, NULL, NULL, &plan), "options must not be NULL");
}

// Capacity ceil(1 * 4 / 2) = 2: each expert takes its two best tokens.
static void test_expert_choice(void) {
  const float logits[4 * 2] = {2, 0, 1, 0, 0, 1, 0, 3};
  const opst_view view = opst_matrix(OPST_F32, logits, 4, 2);
  opst_expert_choice_options options = OPST_EXPERT_CHOICE_OPTIONS_DEFAULT;
  options.capacity_factor = 1;
  opst_routing_plan* plan = NULL;
  OK(opst_route_by_expert_choice(context, &view, &options, &plan));
  const opst_routing_plan_arrays arrays = arrays_of(plan);
  const int32_t wanted[] = {0, 0, 1, 1};
  CHECK(arrays.top_k == 1 && memcmp(arrays.expert_ids.data, wanted, sizeof(wanted)) == 0);
  NEAR(((const float*)arrays.expert_weights.data)[0], exp(2) / (exp(2) + 1), 1e-6);
  OK(opst_routing_plan_destroy(plan));
  options.capacity_factor = 0;
  REFUSED(opst_route_by_expert_choice(context, &view, &options, &plan), "capacity");
}

static void test_counts(void) {
  const opst_view id_view = opst_matrix(OPST_I32, ids, T, K);
  int64_t counts[4] = {-1, -1, -1, -1}, sums[4], experts[4], pairs[4], num_pairs = 0;
  const opst_view count_view = opst_vector(OPST_I64, counts, 4);
  OK(opst_count_experts(&id_view, &count_view));
  const int64_t wanted[] = {3, 2, 4, 0};
  CHECK(memcmp(counts, wanted, sizeof(counts)) == 0);
  const opst_view sum_view = opst_vector(OPST_I64, sums, 4);
  OK(opst_running_sums(&count_view, &sum_view));
  CHECK(sums[0] == 3 && sums[1] == 5 && sums[2] == 9 && sums[3] == 9);
  const opst_view expert_view = opst_vector(OPST_I64, experts, 4);
  const opst_view pair_view = opst_vector(OPST_I64, pairs, 4);
  counts[1] = 0;
  OK(opst_non_empty_experts(&count_view, &expert_view, &pair_view, &num_pairs));
  CHECK(num_pairs == 2 && experts[0] == 0 && experts[1] == 2 && pairs[0] == 3 && pairs[1] == 4);

  const opst_view two = opst_vector(OPST_I64, sums, 2);
  REFUSED(opst_running_sums(&count_view, &two), "sums must have 4 elements; got 2");
  REFUSED(opst_running_sums(&count_view, NULL), "sums must not be NULL");
  REFUSED(opst_count_experts(&id_view, &id_view), "counts must be i64");
  REFUSED(opst_count_experts(&id_view, &two), "invalid expert index 2");
  REFUSED(opst_non_empty_experts(&count_view, &two, &pair_view, &num_pairs), "experts must have 4");
  REFUSED(opst_non_empty_experts(&count_view, &expert_view, &pair_view, NULL), "output");
}

static void test_re_routing(void) {
  const int32_t counts[2 * 3] = {1, 2, 0, 3, 0, 1};  // [rank, expert]
  const opst_view view = opst_matrix(OPST_I32, counts, 2, 3);
  int64_t expert_counts[3], num_rows = 0;
  const opst_view out = opst_vector(OPST_I64, expert_counts, 3);
  int32_t* sources = NULL;
  OK(opst_build_re_routing(&view, &out, &sources, &num_rows));
  const int32_t wanted[] = {0, 3, 4, 5, 1, 2, 6};
  CHECK(num_rows == 7 && memcmp(sources, wanted, sizeof(wanted)) == 0);
  CHECK(expert_counts[0] == 4 && expert_counts[1] == 2 && expert_counts[2] == 1);
  OK(opst_free(sources));
  REFUSED(opst_build_re_routing(&view, &out, NULL, &num_rows), "output must not be NULL");
  REFUSED(opst_build_re_routing(&view, &out, &sources, NULL), "num_rows must not be NULL");
  REFUSED(opst_build_re_routing(&out, &out, &sources, &num_rows), "[");
  CHECK(sources == NULL);
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  test_plan_from_ids();
  test_capacity_padding_and_active_experts();
  test_plan_from_map();
  test_hash_routing();
  test_expert_choice();
  test_counts();
  test_re_routing();
  OK(opst_context_destroy(context));
  return finish();
}
