// What every function checks before it works: handles, outputs, views, enums, struct versions.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "check.h"

static opst_context* context;

static void test_null(void) {
  const float x[] = {1, 2};
  const opst_view view = opst_matrix(OPST_F32, x, 1, 2);
  opst_routing_plan* plan = NULL;
  REFUSED(opst_route(NULL, &view, NULL, NULL, &plan),
          "[opst_route] context must not be NULL; got NULL");
  REFUSED(opst_route(context, NULL, NULL, NULL, &plan), "[opst_route] logits must not be NULL");
  REFUSED(opst_route(context, &view, NULL, NULL, NULL), "[opst_route] the output must not be NULL");
  REFUSED(opst_permute(context, &view, NULL, &view), "[opst_permute] plan must not be NULL");
  REFUSED(opst_gate(context, &view, NULL, NULL), "[opst_gate] outputs must not be NULL");
}

// Every field of a view that can be wrong.
static void test_views(void) {
  float x[8] = {0};
  const int32_t rows[] = {0, 1};
  const opst_view good = opst_matrix(OPST_F32, x, 2, 3), indices = opst_vector(OPST_I32, rows, 2);
  float copy[8];
  const opst_view out = opst_matrix(OPST_F32, copy, 2, 3);
  OK(opst_sparse_gather(context, &good, &indices, &out));

  opst_view bad = good;
  bad.dtype = 10;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "x must have a dtype of 0");
  bad = good;
  bad.dtype = -1;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "x must have a dtype of 0");
  bad = good;
  bad.rank = 5;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "x must have a rank of 0");
  bad.rank = -1;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "got -1");
  bad = good;
  bad.shape[0] = -2;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "extents must not be negative");
  bad.shape[0] = INT64_MAX;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "must fit 63 bits");
  bad = good;
  bad.data = NULL;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out),
          "x must have data; got NULL for [2,3]");
  bad = good;
  bad.data = (char*)x + 1;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "aligned to its element");
  bad = good;
  bad.row_stride = 2;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "rows must not overlap");
  bad.row_stride = INT64_MAX / 2;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "must fit 63 bits");
  bad = opst_matrices(OPST_F32, x, 2, 1, 3);
  bad.row_stride = 4;
  REFUSED(opst_sparse_gather(context, &bad, &indices, &out), "two dimensions");
  // The operator's own checks of shape and dtype keep their texts.
  bad = opst_matrix(OPST_F32, copy, 2, 2);
  REFUSED(opst_sparse_gather(context, &good, &indices, &bad), "[sparse_gather]");
  bad = opst_matrix(OPST_F64, copy, 1, 3);
  REFUSED(opst_sparse_gather(context, &good, &indices, &bad), "[sparse_gather]");
}

// Rows that stand further apart than they are long, and a view without elements.
static void test_strided_and_empty_views(void) {
  const float x[] = {1, 2, -9, 3, 4, -9};
  const int32_t rows[] = {1, 0};
  float out[] = {0, 0, 7, 0, 0, 7};
  opst_view from = opst_matrix(OPST_F32, x, 2, 2), to = opst_matrix(OPST_F32, out, 2, 2);
  from.row_stride = to.row_stride = 3;
  opst_view indices = opst_vector(OPST_I32, rows, 2);
  OK(opst_sparse_gather(context, &from, &indices, &to));
  const float wanted[] = {3, 4, 7, 1, 2, 7};
  CHECK(memcmp(out, wanted, sizeof(out)) == 0);

  indices = opst_vector(OPST_I32, NULL, 0);
  to = opst_matrix(OPST_F32, NULL, 0, 2);
  OK(opst_sparse_gather(context, &from, &indices, &to));
}

static void test_enums_and_claims(void) {
  const float logits[] = {1, 2, 3, 4};
  const opst_view view = opst_matrix(OPST_F32, logits, 2, 2);
  opst_routing_plan* plan = NULL;
  opst_gating_options gating = OPST_GATING_OPTIONS_DEFAULT;
  gating.score_function = 4;
  REFUSED(opst_route(context, &view, &gating, NULL, &plan), "score_function must be one of");
  gating = (opst_gating_options)OPST_GATING_OPTIONS_DEFAULT;
  gating.group_score = -1;
  REFUSED(opst_route(context, &view, &gating, NULL, &plan), "group_score must be one of");
  gating = (opst_gating_options)OPST_GATING_OPTIONS_DEFAULT;
  gating.renormalizes = 2;
  REFUSED(opst_route(context, &view, &gating, NULL, &plan), "renormalizes must be 0 or 1; got 2");
  opst_selection_options selection = OPST_SELECTION_OPTIONS_DEFAULT;
  selection.rule = 17;
  gating = (opst_gating_options)OPST_GATING_OPTIONS_DEFAULT;
  gating.selection = &selection;
  REFUSED(opst_route(context, &view, &gating, NULL, &plan), "selection.rule must be one of");
  REFUSED(opst_sparse_scatter_add(context, &view, &view, NULL, 2, &view), "mode must be one of");
  opst_packed_weights* packed = NULL;
  opst_pack_options pack = OPST_PACK_OPTIONS_DEFAULT;
  pack.format = 77;
  REFUSED(opst_pack_experts(context, &view, &pack, &packed), "format must be one of");
  pack.format = OPST_WEIGHTS_F32;
  pack.order = 2;
  REFUSED(opst_pack_experts(context, &view, &pack, &packed), "order must be one of");
  CHECK(plan == NULL && packed == NULL);
}

// As a caller of an older and of a newer version would hand it over.
static void test_struct_versions(void) {
  const float logits[] = {1, 2, 3, 4};
  const opst_view view = opst_matrix(OPST_F32, logits, 1, 4);
  opst_routing_plan* plan = NULL;
  opst_routing_plan_arrays arrays = OPST_ROUTING_PLAN_ARRAYS_DEFAULT;

  // Older: ends behind top_k. What follows is not read, so renormalizes is 1.
  opst_gating_options older = OPST_GATING_OPTIONS_DEFAULT;
  older.struct_size = 16;
  older.top_k = 3;
  older.renormalizes = 99;
  older.scale = NAN;
  OK(opst_route(context, &view, &older, NULL, &plan));
  OK(opst_routing_plan_get(plan, &arrays));
  CHECK(arrays.top_k == 3);
  const float* weights = arrays.expert_weights.data;
  NEAR(weights[0] + weights[1] + weights[2], 1, 1e-6);
  OK(opst_routing_plan_destroy(plan));

  // Newer: members behind the end, at their zeros and set.
  struct {
    opst_gating_options known;
    int64_t added;
  } newer = {OPST_GATING_OPTIONS_DEFAULT, 0};
  newer.known.struct_size = sizeof(newer);
  OK(opst_route(context, &view, &newer.known, NULL, &plan));
  OK(opst_routing_plan_destroy(plan));
  newer.added = 1;
  REFUSED(opst_route(context, &view, &newer.known, NULL, &plan),
          "must not have members set that this library does not know");

  const uint32_t garbage[] = {0, 1, 20, 4104, UINT32_MAX};
  for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); ++i) {
    opst_gating_options options = OPST_GATING_OPTIONS_DEFAULT;
    options.struct_size = garbage[i];
    REFUSED(opst_route(context, &view, &options, NULL, &plan),
            "options must have the struct_size of its OPST_..._DEFAULT");
  }
  CHECK(plan == NULL);

  opst_gating_outputs outputs = OPST_GATING_OUTPUTS_DEFAULT;
  outputs.reserved = 1;
  REFUSED(opst_gate(context, &view, NULL, &outputs), "must have reserved = 0; got 1");
}

// An output struct of an older caller is filled as far as it goes.
static void test_output_struct_versions(void) {
  const float logits[] = {1, 2};
  const opst_view view = opst_matrix(OPST_F32, logits, 1, 2);
  opst_routing_plan* plan = NULL;
  OK(opst_route(context, &view, NULL, NULL, &plan));
  opst_routing_plan_arrays arrays = OPST_ROUTING_PLAN_ARRAYS_DEFAULT;
  arrays.struct_size = 16;  // behind num_tokens
  arrays.num_experts = -7;
  OK(opst_routing_plan_get(plan, &arrays));
  CHECK(arrays.struct_size == 16 && arrays.num_tokens == 1 && arrays.num_experts == -7);
  arrays.struct_size = 3;
  REFUSED(opst_routing_plan_get(plan, &arrays), "arrays must have the struct_size");
  REFUSED(opst_routing_plan_get(plan, NULL), "arrays must not be NULL");
  OK(opst_routing_plan_destroy(plan));
}

static void* read_error_of_other_thread(void* text) {
  strncpy(text, opst_last_error(), 99);
  return NULL;
}

// A success leaves the text of the last error; other threads have their own.
static void test_last_error(void) {
  REFUSED(opst_context_cancel(NULL), "[opst_context_cancel]");
  int32_t num_threads = 0;
  OK(opst_context_num_threads(context, &num_threads));
  CHECK(strstr(opst_last_error(), "[opst_context_cancel]") != NULL);
  char other[100] = "nothing";
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, read_error_of_other_thread, other) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(strcmp(other, "") == 0);
}

// The layout that callers are compiled with. A size that differs is a broken ABI.
static void test_layout(void) {
  _Static_assert(sizeof(opst_view) == 56, "a view");
  _Static_assert(sizeof(opst_status) == 4, "a status");
  _Static_assert(sizeof(opst_gating_options) == 88, "first version");
  _Static_assert(sizeof(opst_routing_plan_options) == 56, "first version");
  _Static_assert(sizeof(opst_routing_plan_arrays) == 392, "first version");
  _Static_assert(sizeof(opst_moe_ffn_options) == 32, "first version");
  _Static_assert(sizeof(opst_moe_layer_options) == 72, "first version");
  _Static_assert(sizeof(opst_generate_options) == 112, "first version");
  _Static_assert(sizeof(opst_sampling_options) == 64, "first version");
  _Static_assert(offsetof(opst_gating_options, top_k) == 8, "members do not move");
  _Static_assert(offsetof(opst_view, shape) == 16, "members do not move");
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  test_null();
  test_views();
  test_strided_and_empty_views();
  test_enums_and_claims();
  test_struct_versions();
  test_output_struct_versions();
  test_last_error();
  test_layout();
  OK(opst_context_destroy(context));
  return finish();
}
