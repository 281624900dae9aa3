// Gating from C: every score function and selection rule against plain loops, and the gradient
// against differences.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

enum { T = 7, E = 6, K = 3 };

static opst_context* context;
static float logits[T * E];

// What opst_gate gave.
static int32_t ids[T * K];
static float weights[T * K];
static float scores[T * E];
static int64_t num_empty_rows;

static void gate(const opst_gating_options* options) {
  const opst_view view = opst_matrix(OPST_F32, logits, T, E);
  const opst_view id_view = opst_matrix(OPST_I32, ids, T, K);
  const opst_view weight_view = opst_matrix(OPST_F32, weights, T, K);
  const opst_view score_view = opst_matrix(OPST_F32, scores, T, E);
  opst_gating_outputs outputs = OPST_GATING_OUTPUTS_DEFAULT;
  outputs.expert_ids = &id_view;
  outputs.expert_weights = &weight_view;
  outputs.num_empty_rows = &num_empty_rows;
  if (options->score_function != OPST_SCORES_SPARSEMIXER) outputs.scores = &score_view;
  OK(opst_gate(context, &view, options, &outputs));
}

static opst_gating_options with_k(void) {
  opst_gating_options options = OPST_GATING_OPTIONS_DEFAULT;
  options.top_k = K;
  return options;
}

// Scores of a row in plain loops.
static void oracle_scores(const float* row, int is_sigmoid, double* out) {
  double sum = 0;
  for (int e = 0; e < E; ++e) sum += exp((double)row[e]);
  for (int e = 0; e < E; ++e) {
    out[e] = is_sigmoid ? 1 / (1 + exp(-(double)row[e])) : exp((double)row[e]) / sum;
  }
}

// The experts with the k largest keys, ties to the lower id.
static void oracle_choice(const double* keys, int k, int* chosen) {
  int is_taken[E] = {0};
  for (int j = 0; j < k; ++j) {
    int best = -1;
    for (int e = 0; e < E; ++e) {
      if (!is_taken[e] && (best < 0 || keys[e] > keys[best])) best = e;
    }
    is_taken[best] = 1;
    chosen[j] = best;
  }
}

static void check_rows(int is_sigmoid, const float* bias, float scale) {
  for (int t = 0; t < T; ++t) {
    double s[E], keys[E], sum = 0;
    int chosen[K];
    oracle_scores(logits + t * E, is_sigmoid, s);
    for (int e = 0; e < E; ++e) keys[e] = s[e] + (bias ? (double)bias[e] : 0);
    oracle_choice(keys, K, chosen);
    for (int j = 0; j < K; ++j) sum += s[chosen[j]];
    for (int e = 0; e < E; ++e) NEAR(scores[t * E + e], s[e], 1e-6);
    for (int j = 0; j < K; ++j) {
      CHECK(ids[t * K + j] == chosen[j]);
      NEAR(weights[t * K + j], (double)scale * s[chosen[j]] / sum, 1e-6);
    }
  }
  CHECK(num_empty_rows == 0);
}

static void test_scores_and_bias(void) {
  opst_gating_options options = with_k();
  gate(&options);
  check_rows(0, NULL, 1);
  options.score_function = OPST_SCORES_SOFTMAX_OF_CHOSEN;
  gate(&options);
  check_rows(0, NULL, 1);

  const float bias[E] = {.3f, 0, -.2f, 0, .1f, 0};
  const opst_view bias_view = opst_vector(OPST_F32, bias, E);
  options.score_function = OPST_SCORES_SIGMOID;
  options.selection_bias = &bias_view;
  options.scale = 2.5f;
  gate(&options);
  check_rows(1, bias, 2.5f);

  options = with_k();
  options.score_function = OPST_SCORES_SPARSEMIXER;
  gate(&options);
  for (int t = 0; t < T; ++t) {
    double s[E], keys[E];
    int chosen[K];
    oracle_scores(logits + t * E, 0, s);
    for (int e = 0; e < E; ++e) keys[e] = s[e];
    oracle_choice(keys, K, chosen);
    CHECK(ids[t * K] == chosen[0] && ids[t * K + 1] == chosen[1]);
  }
}

// Two of three groups of two, ranked by their best expert: what is chosen is within them.
static void test_groups(void) {
  opst_gating_options options = with_k();
  options.num_groups = 3;
  options.num_kept_groups = 2;
  gate(&options);
  for (int t = 0; t < T; ++t) {
    double best[3];
    for (int g = 0; g < 3; ++g) best[g] = fmax(logits[t * E + 2 * g], logits[t * E + 2 * g + 1]);
    int worst = 0;
    for (int g = 1; g < 3; ++g) worst = best[g] < best[worst] ? g : worst;
    for (int j = 0; j < K; ++j) CHECK(ids[t * K + j] / 2 != worst);
  }
}

static void test_selection_rules(void) {
  opst_selection_options selection = OPST_SELECTION_OPTIONS_DEFAULT;
  opst_gating_options options = with_k();
  options.selection = &selection;
  const opst_entropy_threshold thresholds[] = {{.5f, 1}, {.9f, 2}};
  selection.entropy_thresholds = thresholds;
  selection.num_entropy_thresholds = 2;
  selection.top_p = .4f;
  for (int rule = OPST_SELECT_THRESHOLD; rule <= OPST_SELECT_ENTROPY; ++rule) {
    selection.rule = rule;
    if (rule != OPST_SELECT_ENTROPY) selection.num_entropy_thresholds = 0;
    if (rule == OPST_SELECT_ENTROPY) selection.num_entropy_thresholds = 2;
    selection.top_p = rule == OPST_SELECT_TOP_P ? .4f : 1;
    gate(&options);
    for (int t = 0; t < T; ++t) {
      double s[E], entropy = 0, reached = 0;
      int chosen[K], wanted = 0;
      oracle_scores(logits + t * E, 0, s);
      oracle_choice(s, K, chosen);
      for (int e = 0; e < E; ++e) entropy -= s[e] * log(s[e]) / log(E);
      if (rule == OPST_SELECT_ENTROPY) wanted = entropy < .5 ? 1 : entropy < .9 ? 2 : K;
      for (int j = 0; j < K; ++j) {
        if (rule == OPST_SELECT_THRESHOLD && (j == 0 || s[chosen[j]] > 1.0 / E)) ++wanted;
        if (rule == OPST_SELECT_TOP_P && reached < .4) ++wanted;
        reached += s[chosen[j]];
      }
      for (int j = 0; j < K; ++j) {
        CHECK(ids[t * K + j] == (j < wanted ? chosen[j] : -1));
        CHECK(j < wanted || weights[t * K + j] == 0);
      }
    }
  }
}

// Busy experts are passed over, but the mixing weights are those of the scores.
static void test_load_and_padding(void) {
  const float utilization[E] = {3, 1, 1, .5f, 2, 1};
  const opst_view load = opst_vector(OPST_F32, utilization, E);
  const uint8_t is_padding[T] = {0, 1, 0, 0, 0, 0, 0};
  const opst_view padding = opst_vector(OPST_U8, is_padding, T);
  opst_gating_options options = with_k();
  options.load_balance_ratio = .5f;
  options.utilization = &load;
  options.is_padding = &padding;
  gate(&options);
  for (int t = 0; t < T; ++t) {
    double s[E], keys[E];
    int chosen[K];
    oracle_scores(logits + t * E, 0, s);
    for (int e = 0; e < E; ++e) keys[e] = s[e] / sqrt(fmax(1, utilization[e]));
    oracle_choice(keys, K, chosen);
    for (int j = 0; j < K; ++j) CHECK(ids[t * K + j] == (is_padding[t] ? -1 : chosen[j]));
  }
}

// A row without a usable logit is counted; only what is asked for is written.
static void test_outputs(void) {
  float row[2] = {-INFINITY, NAN};
  const opst_view view = opst_matrix(OPST_F32, row, 1, 2);
  int64_t count = 0;
  opst_gating_outputs outputs = OPST_GATING_OUTPUTS_DEFAULT;
  OK(opst_gate(context, &view, NULL, &outputs));
  outputs.num_empty_rows = &count;
  OK(opst_gate(context, &view, NULL, &outputs));
  CHECK(count == 1);
  const opst_view wrong = opst_vector(OPST_I64, &count, 1);
  outputs.expert_ids = &wrong;
  REFUSED(opst_gate(context, &view, NULL, &outputs), "expert_ids must be i32");
  const opst_view small = opst_vector(OPST_F32, row, 1);
  outputs.expert_ids = NULL;
  outputs.expert_weights = &small;
  REFUSED(opst_gate(context, &view, NULL, &outputs), "expert_weights must have 2 elements; got 1");
  opst_gating_options options = with_k();
  REFUSED(opst_gate(context, &view, &options, &outputs), "[gating]");
  options.top_k = 1;
  options.selection_bias = &wrong;
  REFUSED(opst_gate(context, &view, &options, &outputs), "selection_bias must be f32");
}

// Loss = sum of random factors times mixing weights, its gradient by central differences.
static void test_backward(void) {
  float d_weights[T * K], d_logits[T * E];
  fill_random(d_weights, T * K, 7);
  opst_gating_options options = with_k();
  gate(&options);
  const opst_view view = opst_matrix(OPST_F32, logits, T, E);
  const opst_view id_view = opst_matrix(OPST_I32, ids, T, K);
  const opst_view d_weight_view = opst_matrix(OPST_F32, d_weights, T, K);
  const opst_view d_logit_view = opst_matrix(OPST_F32, d_logits, T, E);
  OK(opst_gate_backward(context, &view, &id_view, &d_weight_view, &options, &d_logit_view));
  const double step = 1e-4;
  for (int t = 0; t < T; ++t) {
    for (int e = 0; e < E; ++e) {
      double losses[2];
      for (int side = 0; side < 2; ++side) {
        double sum = 0, loss = 0;
        for (int j = 0; j < K; ++j) {
          const int id = ids[t * K + j];
          const double moved = (double)logits[t * E + id] + (id == e ? (2 * side - 1) * step : 0);
          sum += exp(moved);
          loss += exp(moved) * (double)d_weights[t * K + j];
        }
        losses[side] = loss / sum;
      }
      NEAR(d_logits[t * E + e], (losses[1] - losses[0]) / (2 * step), 1e-5);
    }
  }
  REFUSED(opst_gate_backward(context, &view, &view, &d_weight_view, &options, &d_logit_view),
          "expert_ids must be i32");
  REFUSED(opst_gate_backward(context, &view, &id_view, &d_weight_view, &options, NULL),
          "d_logits must not be NULL");
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  fill_random(logits, T * E, 3);
  for (int i = 0; i < T * E; ++i) logits[i] *= 6;
  test_scores_and_bias();
  test_groups();
  test_selection_rules();
  test_load_and_padding();
  test_outputs();
  test_backward();
  OK(opst_context_destroy(context));
  return finish();
}
