// The fused layer, its gradients and opst_moe_layer from C, against plain loops.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

enum { T = 5, H = 20, F = 12, E = 4, K = 2 };

static opst_context* context;
static float x[T * H];
static float w_router[E * H];
static float w_gate_up[E * 2 * F * H];
static float w_down[E * H * F];
static float gate_up_bias[E * 2 * F];
static float down_bias[E * H];

static opst_packed_weights* pack(const float* w, int64_t count, int64_t out, int64_t in,
                                 opst_panel_order order) {
  const opst_view view = opst_matrices(OPST_F32, w, count, out, in);
  opst_pack_options options = OPST_PACK_OPTIONS_DEFAULT;
  options.order = order;
  opst_packed_weights* packed = NULL;
  OK(opst_pack_experts(context, &view, &options, &packed));
  return packed;
}

static double dot(const float* a, const double* b, int length) {
  double sum = 0;
  for (int i = 0; i < length; ++i) sum += (double)a[i] * b[i];
  return sum;
}

// out += weight * expert(input); gate and up with SiLU.
static void add_expert(const float* gate_up, const float* down, const float* biases_up,
                       const float* biases_down, const double* input, double weight, double* out) {
  double h[F];
  for (int f = 0; f < F; ++f) {
    const double g = dot(gate_up + f * H, input, H) + (biases_up ? (double)biases_up[f] : 0);
    const double u =
        dot(gate_up + (F + f) * H, input, H) + (biases_up ? (double)biases_up[F + f] : 0);
    h[f] = g / (1 + exp(-g)) * u;
  }
  for (int i = 0; i < H; ++i) {
    out[i] += weight * (dot(down + i * F, h, F) + (biases_down ? (double)biases_down[i] : 0));
  }
}

// The layer of one token by softmax top-k, renormalised; `chosen` gets its experts.
static void oracle_layer(const double* input, double* out, int* chosen, double* mixing) {
  double p[E], sum = 0;
  for (int e = 0; e < E; ++e) p[e] = exp(dot(w_router + e * H, input, H));
  int is_taken[E] = {0};
  for (int j = 0; j < K; ++j) {
    int best = -1;
    for (int e = 0; e < E; ++e) {
      if (!is_taken[e] && (best < 0 || p[e] > p[best])) best = e;
    }
    is_taken[best] = 1;
    chosen[j] = best;
    sum += p[best];
  }
  for (int i = 0; i < H; ++i) out[i] = 0;
  for (int j = 0; j < K; ++j) {
    const int e = chosen[j];
    mixing[j] = p[e] / sum;
    add_expert(w_gate_up + e * 2 * F * H, w_down + e * H * F, gate_up_bias + e * 2 * F,
               down_bias + e * H, input, mixing[j], out);
  }
}

static void read_token(int t, double* input) {
  for (int i = 0; i < H; ++i) input[i] = (double)x[t * H + i];
}

static opst_routing_plan* route(void) {
  opst_packed_weights* router = pack(w_router, 1, E, H, OPST_PANELS_PLAIN);
  float logits[T * E];
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view logit_view = opst_matrix(OPST_F32, logits, T, E);
  OK(opst_matmul(context, &x_view, router, &logit_view));
  opst_routing_plan* plan = NULL;
  OK(opst_route(context, &logit_view, NULL, NULL, &plan));
  OK(opst_packed_weights_destroy(router));
  return plan;
}

static void check_out(const float* out) {
  for (int t = 0; t < T; ++t) {
    double input[H], wanted[H], mixing[K];
    int chosen[K];
    read_token(t, input);
    oracle_layer(input, wanted, chosen, mixing);
    for (int i = 0; i < H; ++i) NEAR(out[t * H + i], wanted[i], 1e-5);
  }
}

static void test_forward(void) {
  opst_packed_weights* gate_up = pack(w_gate_up, E, 2 * F, H, OPST_PANELS_GATE_UP);
  opst_packed_weights* down = pack(w_down, E, H, F, OPST_PANELS_PLAIN);
  opst_routing_plan* plan = route();
  const opst_view up_bias = opst_matrix(OPST_F32, gate_up_bias, E, 2 * F);
  const opst_view out_bias = opst_matrix(OPST_F32, down_bias, E, H);
  opst_expert_weights experts = OPST_EXPERT_WEIGHTS_DEFAULT;
  experts.gate_up = gate_up;
  experts.down = down;
  experts.gate_up_bias = &up_bias;
  experts.down_bias = &out_bias;
  float out[T * H];
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view out_view = opst_matrix(OPST_F32, out, T, H);
  OK(opst_moe_ffn(context, &x_view, plan, &experts, NULL, &out_view));
  check_out(out);

  opst_moe_ffn_options options = OPST_MOE_FFN_OPTIONS_DEFAULT;
  options.activation = 6;
  REFUSED(opst_moe_ffn(context, &x_view, plan, &experts, &options, &out_view), "activation must");
  options.activation = OPST_RELU;
  options.output_mode = 2;
  REFUSED(opst_moe_ffn(context, &x_view, plan, &experts, &options, &out_view), "output_mode must");
  experts.down = gate_up;
  REFUSED(opst_moe_ffn(context, &x_view, plan, &experts, NULL, &out_view), "[moe_ffn]");
  experts.down = NULL;
  REFUSED(opst_moe_ffn(context, &x_view, plan, &experts, NULL, &out_view), "down must not be NULL");
  REFUSED(opst_moe_ffn(context, &x_view, plan, NULL, NULL, &out_view), "experts must not be NULL");
  REFUSED(opst_moe_ffn(context, &x_view, NULL, &experts, NULL, &out_view), "must not be NULL");
  OK(opst_routing_plan_destroy(plan));
  OK(opst_packed_weights_destroy(gate_up));
  OK(opst_packed_weights_destroy(down));
}

// Experts without a gate: down(relu(up x)).
static void test_experts_without_gate(void) {
  opst_packed_weights* up = pack(w_gate_up, E, F, H, OPST_PANELS_PLAIN);
  opst_packed_weights* down = pack(w_down, E, H, F, OPST_PANELS_PLAIN);
  opst_routing_plan* plan = route();
  opst_routing_plan_arrays arrays = OPST_ROUTING_PLAN_ARRAYS_DEFAULT;
  OK(opst_routing_plan_get(plan, &arrays));
  opst_expert_weights experts = OPST_EXPERT_WEIGHTS_DEFAULT;
  experts.gate_up = up;
  experts.down = down;
  opst_moe_ffn_options options = OPST_MOE_FFN_OPTIONS_DEFAULT;
  options.activation = OPST_RELU;
  float out[T * H];
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view out_view = opst_matrix(OPST_F32, out, T, H);
  OK(opst_moe_ffn(context, &x_view, plan, &experts, &options, &out_view));
  for (int t = 0; t < T; ++t) {
    double input[H], wanted[H] = {0};
    read_token(t, input);
    for (int slot = t * K; slot < (t + 1) * K; ++slot) {
      const int e = ((const int32_t*)arrays.expert_ids.data)[slot];
      double h[F];
      for (int f = 0; f < F; ++f) h[f] = fmax(0, dot(w_gate_up + (e * F + f) * H, input, H));
      for (int i = 0; i < H; ++i) {
        wanted[i] += (double)((const float*)arrays.expert_weights.data)[slot] *
                     dot(w_down + (e * H + i) * F, h, F);
      }
    }
    for (int i = 0; i < H; ++i) NEAR(out[t * H + i], wanted[i], 1e-5);
  }
  OK(opst_routing_plan_destroy(plan));
  OK(opst_packed_weights_destroy(up));
  OK(opst_packed_weights_destroy(down));
}

// Sum of factor * out with the plan's weights, for differences.
static double loss_of(const opst_routing_plan_arrays* plan, const float* factors) {
  const int32_t* ids = plan->expert_ids.data;
  const float* mixing = plan->expert_weights.data;
  double loss = 0;
  for (int t = 0; t < T; ++t) {
    double input[H], out[H] = {0};
    read_token(t, input);
    for (int slot = t * K; slot < (t + 1) * K; ++slot) {
      const int e = ids[slot];
      add_expert(w_gate_up + e * 2 * F * H, w_down + e * H * F, gate_up_bias + e * 2 * F,
                 down_bias + e * H, input, (double)mixing[slot], out);
    }
    loss += dot(factors + t * H, out, H);
  }
  return loss;
}

static void check_gradient(float* values, const float* gradient, int count,
                           const opst_routing_plan_arrays* plan, const float* factors) {
  for (int i = 0; i < count; i += count / 16 + 1) {
    const float before = values[i];
    values[i] = before + 1.0f / 128;
    const double up = loss_of(plan, factors);
    const double step = (double)values[i];
    values[i] = before - 1.0f / 128;
    const double down = loss_of(plan, factors);
    NEAR(gradient[i], (up - down) / (step - (double)values[i]), 2e-3);
    values[i] = before;
  }
}

static void test_backward(void) {
  static float factors[T * H], d_x[T * H], d_mixing[T * K], d_gate_up[E * 2 * F * H];
  static float d_down[E * H * F], d_up_bias[E * 2 * F], d_down_bias[E * H];
  fill_random(factors, T * H, 21);
  opst_routing_plan* plan = route();
  opst_routing_plan_arrays arrays = OPST_ROUTING_PLAN_ARRAYS_DEFAULT;
  OK(opst_routing_plan_get(plan, &arrays));
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view d_out = opst_matrix(OPST_F32, factors, T, H);
  const opst_view weights[4] = {
      opst_matrices(OPST_F32, w_gate_up, E, 2 * F, H), opst_matrices(OPST_F32, w_down, E, H, F),
      opst_matrix(OPST_F32, gate_up_bias, E, 2 * F), opst_matrix(OPST_F32, down_bias, E, H)};
  const opst_expert_tensors experts = {sizeof(experts), 0,           &weights[0], &weights[1],
                                       &weights[2],     &weights[3], NULL};
  const opst_view wanted[6] = {opst_matrix(OPST_F32, d_x, T, H),
                               opst_matrix(OPST_F32, d_mixing, T, K),
                               opst_matrices(OPST_F32, d_gate_up, E, 2 * F, H),
                               opst_matrices(OPST_F32, d_down, E, H, F),
                               opst_matrix(OPST_F32, d_up_bias, E, 2 * F),
                               opst_matrix(OPST_F32, d_down_bias, E, H)};
  opst_moe_ffn_gradients gradients = {sizeof(gradients), 0,          &wanted[0], &wanted[1],
                                      &wanted[2],        &wanted[3], &wanted[4], &wanted[5]};
  OK(opst_moe_ffn_backward(context, &x_view, plan, &experts, &d_out, NULL, &gradients));
  check_gradient(x, d_x, T * H, &arrays, factors);
  check_gradient((float*)arrays.expert_weights.data, d_mixing, T * K, &arrays, factors);
  check_gradient(w_gate_up, d_gate_up, E * 2 * F * H, &arrays, factors);
  check_gradient(w_down, d_down, E * H * F, &arrays, factors);
  check_gradient(gate_up_bias, d_up_bias, E * 2 * F, &arrays, factors);
  check_gradient(down_bias, d_down_bias, E * H, &arrays, factors);

  gradients.d_down = &wanted[2];
  REFUSED(opst_moe_ffn_backward(context, &x_view, plan, &experts, &d_out, NULL, &gradients), "[");
  REFUSED(opst_moe_ffn_backward(context, &x_view, plan, NULL, &d_out, NULL, &gradients),
          "experts must not be NULL");
  OK(opst_routing_plan_destroy(plan));
}

static opst_moe_layer* make_layer(const opst_moe_layer_options* options) {
  opst_packed_weights* gate_up = pack(w_gate_up, E, 2 * F, H, OPST_PANELS_GATE_UP);
  opst_packed_weights* down = pack(w_down, E, H, F, OPST_PANELS_PLAIN);
  opst_packed_weights* router = pack(w_router, 1, E, H, OPST_PANELS_PLAIN);
  // Copies, so that the layer can be seen to keep its own.
  float* up_copy = malloc(sizeof(gate_up_bias));
  float* down_copy = malloc(sizeof(down_bias));
  memcpy(up_copy, gate_up_bias, sizeof(gate_up_bias));
  memcpy(down_copy, down_bias, sizeof(down_bias));
  const opst_view up_bias = opst_matrix(OPST_F32, up_copy, E, 2 * F);
  const opst_view out_bias = opst_matrix(OPST_F32, down_copy, E, H);
  opst_expert_weights experts = OPST_EXPERT_WEIGHTS_DEFAULT;
  experts.gate_up = gate_up;
  experts.down = down;
  experts.gate_up_bias = &up_bias;
  experts.down_bias = &out_bias;
  opst_moe_layer_parts parts = OPST_MOE_LAYER_PARTS_DEFAULT;
  parts.router = router;
  parts.experts = &experts;
  opst_moe_layer* layer = NULL;
  OK(opst_moe_layer_create(&parts, options, &layer));
  opst_moe_layer* refused = NULL;
  parts.shared_gate = router;
  REFUSED(opst_moe_layer_create(&parts, options, &refused), "shared_gate must have a shared");
  parts.shared_gate = NULL;
  parts.router = down;
  REFUSED(opst_moe_layer_create(&parts, options, &refused), "[moe_layer]");
  parts.router = NULL;
  REFUSED(opst_moe_layer_create(&parts, options, &refused), "router must not be NULL");
  parts.router = router;
  parts.experts = NULL;
  REFUSED(opst_moe_layer_create(&parts, options, &refused), "experts must not be NULL");
  CHECK(refused == NULL);
  free(up_copy);
  free(down_copy);
  OK(opst_packed_weights_destroy(gate_up));
  OK(opst_packed_weights_destroy(down));
  OK(opst_packed_weights_destroy(router));
  return layer;
}

static void test_layer(void) {
  opst_moe_layer* layer = make_layer(NULL);
  float out[T * H];
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view out_view = opst_matrix(OPST_F32, out, T, H);
  opst_routing_plan* plan = NULL;
  OK(opst_moe_layer_forward(context, layer, &x_view, NULL, &out_view, &plan));
  check_out(out);
  opst_routing_plan_arrays arrays = OPST_ROUTING_PLAN_ARRAYS_DEFAULT;
  OK(opst_routing_plan_get(plan, &arrays));
  CHECK(arrays.num_tokens == T && arrays.num_rows == T * K);
  OK(opst_routing_plan_destroy(plan));

  // Masked experts serve nobody.
  const int32_t masked[] = {0, 3};
  opst_routing_override changes = OPST_ROUTING_OVERRIDE_DEFAULT;
  changes.masked_experts = masked;
  changes.num_masked_experts = 2;
  OK(opst_moe_layer_forward(context, layer, &x_view, &changes, &out_view, &plan));
  OK(opst_routing_plan_get(plan, &arrays));
  const int64_t* counts = arrays.expert_counts.data;
  CHECK(counts[0] == 0 && counts[1] == T && counts[2] == T && counts[3] == 0);
  OK(opst_routing_plan_destroy(plan));
  OK(opst_moe_layer_forward(context, layer, &x_view, NULL, &out_view, NULL));

  REFUSED(opst_moe_layer_forward(context, layer, &x_view, NULL, &x_view, &plan), "overlap");
  CHECK(plan == NULL);
  changes.num_masked_experts = -1;
  REFUSED(opst_moe_layer_forward(context, layer, &x_view, &changes, &out_view, &plan), "masked");
  opst_load_tracker* tracker = NULL;
  REFUSED(opst_moe_layer_load_tracker(layer, &tracker), "load_balance_ratio above 0; got 0");
  OK(opst_moe_layer_destroy(layer));
}

// The tracker keeps its layer alive, and counts its calls.
static void test_layer_tracker(void) {
  opst_moe_layer_options options = OPST_MOE_LAYER_OPTIONS_DEFAULT;
  options.load_balance_ratio = 0.5f;
  opst_moe_layer* layer = make_layer(&options);
  float out[T * H];
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view out_view = opst_matrix(OPST_F32, out, T, H);
  OK(opst_moe_layer_forward(context, layer, &x_view, NULL, &out_view, NULL));
  opst_load_tracker* tracker = NULL;
  OK(opst_moe_layer_load_tracker(layer, &tracker));
  OK(opst_moe_layer_destroy(layer));
  double load[E], sum = 0;
  const opst_view load_view = opst_vector(OPST_F64, load, E);
  OK(opst_load_tracker_save(tracker, &load_view));
  for (int e = 0; e < E; ++e) sum += load[e];
  NEAR(sum, 0.01 * T * K, 1e-9);
  OK(opst_load_tracker_destroy(tracker));
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  fill_random(x, T * H, 1);
  fill_random(w_router, E * H, 2);
  fill_random(w_gate_up, E * 2 * F * H, 3);
  fill_random(w_down, E * H * F, 4);
  fill_random(gate_up_bias, E * 2 * F, 5);
  fill_random(down_bias, E * H, 6);
  test_forward();
  test_experts_without_gate();
  test_backward();
  test_layer();
  test_layer_tracker();
  OK(opst_context_destroy(context));
  return finish();
}
