// Example 3: one MoE layer from C, with random weights: pack, route, run, and show who served whom.
// No model file is needed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <opst/opst.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 6, H = 64, F = 48, E = 8 };

static float x[T * H], logits[T * E], out[T * H];
static float w_router[E * H], w_gate_up[E * 2 * F * H], w_down[E * H * F];

// Every function returns a status; the text says what was wrong.
static void check(opst_status status) {
  if (status == OPST_OK) return;
  fprintf(stderr, "%s: %s\n", opst_status_name(status), opst_last_error());
  exit(1);
}

// Repeatable numbers in [-0.5, 0.5).
static void fill_random(float* values, int count, uint32_t state) {
  for (int i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
  }
}

static opst_packed_weights* pack(const opst_context* context, const float* w, int64_t count,
                                 int64_t rows, int64_t columns, opst_panel_order order) {
  const opst_view view = opst_matrices(OPST_F32, w, count, rows, columns);
  opst_pack_options options = OPST_PACK_OPTIONS_DEFAULT;
  options.format = OPST_WEIGHTS_F32;
  options.order = order;
  opst_packed_weights* packed = NULL;
  check(opst_pack_experts(context, &view, &options, &packed));
  return packed;
}

static void print_plan(const opst_routing_plan* plan) {
  char* text = NULL;
  check(opst_routing_plan_format_csr(plan, 8, &text));
  printf("%s", text);
  check(opst_free(text));
}

static void run(const opst_context* context) {
  opst_packed_weights* router = pack(context, w_router, 1, E, H, OPST_PANELS_PLAIN);
  opst_packed_weights* gate_up = pack(context, w_gate_up, E, 2 * F, H, OPST_PANELS_GATE_UP);
  opst_packed_weights* down = pack(context, w_down, E, H, F, OPST_PANELS_PLAIN);

  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view logit_view = opst_matrix(OPST_F32, logits, T, E);
  const opst_view out_view = opst_matrix(OPST_F32, out, T, H);
  check(opst_matmul(context, &x_view, router, &logit_view));

  opst_gating_options gating = OPST_GATING_OPTIONS_DEFAULT;
  gating.top_k = 2;
  opst_routing_plan* plan = NULL;
  check(opst_route(context, &logit_view, &gating, NULL, &plan));

  opst_expert_weights experts = OPST_EXPERT_WEIGHTS_DEFAULT;
  experts.gate_up = gate_up;
  experts.down = down;
  check(opst_moe_ffn(context, &x_view, plan, &experts, NULL, &out_view));
  print_plan(plan);

  check(opst_routing_plan_destroy(plan));
  check(opst_packed_weights_destroy(router));
  check(opst_packed_weights_destroy(gate_up));
  check(opst_packed_weights_destroy(down));
}

int main(void) {
  fill_random(x, T * H, 1);
  fill_random(w_router, E * H, 2);
  fill_random(w_gate_up, E * 2 * F * H, 3);
  fill_random(w_down, E * H * F, 4);
  opst_context* context = NULL;
  check(opst_context_create(NULL, &context));
  run(context);
  check(opst_context_destroy(context));
  return 0;
}
