// Load tracker, selection bias and the router's losses from C, against plain loops.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

enum { T = 6, E = 4, K = 2 };

static opst_context* context;
static float logits[T * E];
static const int32_t ids[T * K] = {0, 1, 2, 0, 0, 3, 1, 2, 0, -1, 3, 2};

static void test_tracker(void) {
  opst_load_tracker_options options = OPST_LOAD_TRACKER_OPTIONS_DEFAULT;
  options.decay = 0.5;
  opst_load_tracker *tracker = NULL, *copy = NULL;
  OK(opst_load_tracker_create(E, &options, &tracker));
  float utilization[E];
  double load[E];
  const opst_view used = opst_vector(OPST_F32, utilization, E);
  const opst_view saved = opst_vector(OPST_F64, load, E);
  OK(opst_load_tracker_utilization(tracker, &used));
  CHECK(utilization[0] == 1 && utilization[3] == 1);
  const int64_t first[E] = {8, 0, 4, 0}, second[E] = {0, 2, 4, 6};
  const opst_view counts[2] = {opst_vector(OPST_I64, first, E), opst_vector(OPST_I64, second, E)};
  OK(opst_load_tracker_observe(tracker, &counts[0]));
  OK(opst_load_tracker_observe(tracker, &counts[1]));
  OK(opst_load_tracker_save(tracker, &saved));
  OK(opst_load_tracker_utilization(tracker, &used));
  double mean = 0;
  for (int e = 0; e < E; ++e) mean += load[e] / E;
  for (int e = 0; e < E; ++e) {
    NEAR(load[e], .25 * (double)first[e] + .5 * (double)second[e], 1e-12);
    NEAR(utilization[e], load[e] / mean, 1e-6);
  }
  OK(opst_load_tracker_create(E, NULL, &copy));
  OK(opst_load_tracker_restore(copy, &saved));
  float restored[E];
  const opst_view other = opst_vector(OPST_F32, restored, E);
  OK(opst_load_tracker_utilization(copy, &other));
  CHECK(memcmp(restored, utilization, sizeof(restored)) == 0);
  OK(opst_load_tracker_destroy(copy));

  options.decay = 1;
  REFUSED(opst_load_tracker_create(E, &options, &copy), "decay");
  CHECK(copy == NULL);
  REFUSED(opst_load_tracker_create(0, NULL, &copy), "[");
  REFUSED(opst_load_tracker_observe(tracker, &used), "expert_counts must be i64");
  REFUSED(opst_load_tracker_save(tracker, &used), "load must be f64");
  REFUSED(opst_load_tracker_utilization(NULL, &used), "tracker must not be NULL");
  const opst_view three = opst_vector(OPST_F32, utilization, 3);
  REFUSED(opst_load_tracker_utilization(tracker, &three), "must have 4 elements; got 3");
  OK(opst_load_tracker_destroy(tracker));
}

static void test_bias(void) {
  const int64_t counts[E] = {10, 2, 6, 6};  // mean 6
  float bias[E] = {0, 0, 1, 0};
  const opst_view count_view = opst_vector(OPST_I64, counts, E);
  const opst_view bias_view = opst_vector(OPST_F32, bias, E);
  opst_bias_update_options options = OPST_BIAS_UPDATE_OPTIONS_DEFAULT;
  options.rate = .5f;
  OK(opst_update_selection_bias(&count_view, &options, &bias_view));
  CHECK(bias[0] == -.5f && bias[1] == .5f && bias[2] == 1 && bias[3] == 0);
  options.rate = -1;
  REFUSED(opst_update_selection_bias(&count_view, &options, &bias_view), "rate");
  options.centers = 3;
  REFUSED(opst_update_selection_bias(&count_view, &options, &bias_view), "centers must be 0 or 1");
  REFUSED(opst_update_selection_bias(&bias_view, NULL, &bias_view), "expert_counts must be i64");
}

// Four experts in six slots of three ranks: the two hot ones get a second copy.
static void test_placement(void) {
  double loads[E] = {4, 1, 1, 6};
  int32_t experts[6], copies[6], counts[E];
  const opst_view load_view = opst_vector(OPST_F64, loads, E);
  const opst_view expert_view = opst_vector(OPST_I32, experts, 6);
  const opst_view copy_view = opst_vector(OPST_I32, copies, 6);
  const opst_view count_view = opst_vector(OPST_I32, counts, E);
  opst_expert_placement_options options = OPST_EXPERT_PLACEMENT_OPTIONS_DEFAULT;
  options.num_slots = 6;
  options.num_ranks = 3;
  OK(opst_plan_expert_placement(&load_view, &options, &expert_view, &copy_view, &count_view));
  CHECK(counts[0] == 2 && counts[1] == 1 && counts[2] == 1 && counts[3] == 2);
  for (int rank = 0; rank < 3; ++rank) {
    double load = 0;
    for (int slot = 2 * rank; slot < 2 * rank + 2; ++slot) {
      CHECK(copies[slot] < counts[experts[slot]]);
      load += loads[experts[slot]] / counts[experts[slot]];
    }
    CHECK(load <= 5);
  }
  options.num_slots = 3;
  REFUSED(opst_plan_expert_placement(&load_view, &options, &expert_view, &copy_view, &count_view),
          "every expert needs a slot");
  options.num_slots = 6;
  REFUSED(opst_plan_expert_placement(&load_view, &options, &expert_view, &copy_view, &copy_view),
          "num_copies");
  REFUSED(opst_plan_expert_placement(NULL, &options, &expert_view, &copy_view, &count_view),
          "loads must not be NULL");
}

// Losses of logits in plain loops: balance per choice, z and importance.
struct losses {
  double balance, z, importance;
};

static struct losses oracle(const double* x) {
  double f[E] = {0}, p[E] = {0}, z = 0, num_choices = 0;
  for (int slot = 0; slot < T * K; ++slot) {
    if (ids[slot] < 0) continue;
    f[ids[slot]] += 1;
    num_choices += 1;
  }
  for (int t = 0; t < T; ++t) {
    double sum = 0;
    for (int e = 0; e < E; ++e) sum += exp(x[t * E + e]);
    for (int e = 0; e < E; ++e) p[e] += exp(x[t * E + e]) / sum;
    z += log(sum) * log(sum);
  }
  struct losses result = {0, 1e-3 * z / T, 0};
  double mean = 0, variance = 0;
  for (int e = 0; e < E; ++e) {
    result.balance += 0.01 * E * (f[e] / num_choices) * (p[e] / T);
    mean += p[e] / E;
  }
  for (int e = 0; e < E; ++e) variance += (p[e] - mean) * (p[e] - mean) / E;
  result.importance = 1e-3 * variance / (mean * mean);
  return result;
}

static void test_losses(void) {
  const opst_view view = opst_matrix(OPST_F32, logits, T, E);
  const opst_view id_view = opst_matrix(OPST_I32, ids, T, K);
  double x[T * E], balance = 0, z = 0, importance = 0;
  for (int i = 0; i < T * E; ++i) x[i] = (double)logits[i];
  OK(opst_balance_loss(context, &view, &id_view, NULL, &balance));
  OK(opst_router_z_loss(context, &view, NULL, &z));
  OK(opst_importance_loss(context, &view, NULL, &importance));
  const struct losses wanted = oracle(x);
  NEAR(balance / wanted.balance, 1, 1e-6);
  NEAR(z / wanted.z, 1, 1e-6);
  NEAR(importance / wanted.importance, 1, 1e-5);

  float d_balance[T * E] = {0}, d_z[T * E] = {0}, d_importance[T * E] = {0};
  const opst_view d_views[3] = {opst_matrix(OPST_F32, d_balance, T, E),
                                opst_matrix(OPST_F32, d_z, T, E),
                                opst_matrix(OPST_F32, d_importance, T, E)};
  OK(opst_balance_loss_backward(context, &view, &id_view, NULL, 1000, &d_views[0]));
  OK(opst_router_z_loss_backward(context, &view, NULL, 1000, &d_views[1]));
  OK(opst_importance_loss_backward(context, &view, NULL, 1000, &d_views[2]));
  const double step = 1e-4;
  for (int i = 0; i < T * E; ++i) {
    const double before = x[i];
    x[i] = before + step;
    const struct losses up = oracle(x);
    x[i] = before - step;
    const struct losses down = oracle(x);
    x[i] = before;
    NEAR(d_balance[i], 1000 * (up.balance - down.balance) / (2 * step), 1e-4);
    NEAR(d_z[i], 1000 * (up.z - down.z) / (2 * step), 1e-4);
    NEAR(d_importance[i], 1000 * (up.importance - down.importance) / (2 * step), 1e-4);
  }
}

static void test_loss_errors(void) {
  const opst_view view = opst_matrix(OPST_F32, logits, T, E);
  const opst_view id_view = opst_matrix(OPST_I32, ids, T, K);
  double loss = 1;
  opst_balance_loss_options options = OPST_BALANCE_LOSS_OPTIONS_DEFAULT;
  options.count = 3;
  REFUSED(opst_balance_loss(context, &view, &id_view, &options, &loss), "count must be one of");
  CHECK(loss == 0);
  opst_router_loss_options router = OPST_ROUTER_LOSS_OPTIONS_DEFAULT;
  router.values = -1;
  REFUSED(opst_importance_loss(context, &view, &router, &loss), "values must be one of");
  REFUSED(opst_router_z_loss(context, &id_view, NULL, &loss), "[");
  REFUSED(opst_router_z_loss(context, &view, NULL, NULL), "output must not be NULL");
  REFUSED(opst_router_z_loss_backward(context, &view, NULL, 1, &view), "overlap");
  const opst_view wrong = opst_matrix(OPST_F32, logits, E, T);
  REFUSED(opst_importance_loss_backward(context, &view, NULL, 1, &wrong), "[");
  REFUSED(opst_balance_loss_backward(context, &view, NULL, NULL, 1, &view), "expert_ids must not");
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  fill_random(logits, T * E, 11);
  for (int i = 0; i < T * E; ++i) logits[i] *= 4;
  test_tracker();
  test_bias();
  test_placement();
  test_losses();
  test_loss_errors();
  OK(opst_context_destroy(context));
  return finish();
}
