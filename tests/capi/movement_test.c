// Permute, finalize, gather and scatter-add from C, with their gradients, against plain loops.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

enum { T = 5, K = 2, E = 3, H = 19, R = 8 };

static opst_context* context;
static opst_routing_plan* plan;
static const int32_t* row_to_slot;  // [R]
static const int32_t* slot_to_row;  // [T * K]
static const int32_t ids[T * K] = {2, 0, 1, 2, 0, -1, 2, 1, -1, 0};
static const float weights[T * K] = {.6f, .4f, .7f, .3f, 1, 0, .5f, .5f, 0, .1f};
static float x[T * H];
static float rows[R * H];

static void test_permute(void) {
  float out[R * H], d_x[T * H];
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view out_view = opst_matrix(OPST_F32, out, R, H);
  OK(opst_permute(context, &x_view, plan, &out_view));
  for (int row = 0; row < R; ++row) {
    const int token = row_to_slot[row] / K;
    CHECK(memcmp(out + row * H, x + token * H, H * sizeof(float)) == 0);
  }
  const opst_view row_view = opst_matrix(OPST_F32, rows, R, H);
  const opst_view d_x_view = opst_matrix(OPST_F32, d_x, T, H);
  OK(opst_permute_backward(context, &row_view, plan, &d_x_view));
  for (int t = 0; t < T; ++t) {
    for (int h = 0; h < H; ++h) {
      double sum = 0;
      for (int j = 0; j < K; ++j) {
        const int row = slot_to_row[t * K + j];
        if (row >= 0) sum += (double)rows[row * H + h];
      }
      NEAR(d_x[t * H + h], sum, 1e-6);
    }
  }
  REFUSED(opst_permute(context, &x_view, plan, &x_view), "[permute]");
  REFUSED(opst_permute_backward(context, &x_view, plan, &d_x_view), "[");
}

static void test_permute_quantized(void) {
  int8_t out[R * H];
  float scales[R], smooth[E * H];
  fill_random(smooth, E * H, 5);
  for (int i = 0; i < E * H; ++i) smooth[i] += 1;
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view out_view = opst_matrix(OPST_I8, out, R, H);
  const opst_view scale_view = opst_vector(OPST_F32, scales, R);
  const opst_view smooth_view = opst_matrix(OPST_F32, smooth, E, H);
  opst_quantized_permute_options options = OPST_QUANTIZED_PERMUTE_OPTIONS_DEFAULT;
  options.smooth = &smooth_view;
  OK(opst_permute_quantized(context, &x_view, plan, &options, &out_view, &scale_view));
  for (int row = 0; row < R; ++row) {
    const int slot = row_to_slot[row];
    for (int h = 0; h < H; ++h) {
      const double v = (double)x[slot / K * H + h] * (double)smooth[ids[slot] * H + h];
      CHECK(fabs(out[row * H + h] * (double)scales[row] - v) <= (double)scales[row] * .501);
    }
  }
  options = (opst_quantized_permute_options)OPST_QUANTIZED_PERMUTE_OPTIONS_DEFAULT;
  options.quantization = OPST_QUANTIZE_STATIC;
  options.scale = 100;
  options.offset = 3;
  OK(opst_permute_quantized(context, &x_view, plan, &options, &out_view, NULL));
  for (int row = 0; row < R; ++row) {
    for (int h = 0; h < H; ++h) {
      const double v = (double)x[row_to_slot[row] / K * H + h] * 100 + 3;
      CHECK(fabs(out[row * H + h] - v) <= .501);
    }
  }
  options.quantization = 2;
  REFUSED(opst_permute_quantized(context, &x_view, plan, &options, &out_view, NULL),
          "quantization must be one of");
  options.quantization = OPST_QUANTIZE_DYNAMIC;
  REFUSED(opst_permute_quantized(context, &x_view, plan, &options, &out_view, NULL), "scales");
}

static void test_finalize(void) {
  float out[T * H], bias[E * H];
  fill_random(bias, E * H, 6);
  const opst_view row_view = opst_matrix(OPST_F32, rows, R, H);
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view bias_view = opst_matrix(OPST_F32, bias, E, H);
  const opst_view out_view = opst_matrix(OPST_F32, out, T, H);
  opst_finalize_options options = OPST_FINALIZE_OPTIONS_DEFAULT;
  options.residual = options.second_residual = &x_view;
  options.expert_bias = &bias_view;
  for (int order = OPST_SUM_BY_EXPERT; order <= OPST_SUM_BY_SLOT; ++order) {
    options.order = order;
    OK(opst_finalize_routing(context, &row_view, plan, &options, &out_view));
    for (int t = 0; t < T; ++t) {
      for (int h = 0; h < H; ++h) {
        double sum = 2 * (double)x[t * H + h];
        for (int slot = t * K; slot < (t + 1) * K; ++slot) {
          if (slot_to_row[slot] < 0) continue;
          sum += (double)weights[slot] *
                 ((double)rows[slot_to_row[slot] * H + h] + (double)bias[ids[slot] * H + h]);
        }
        NEAR(out[t * H + h], sum, 1e-6);
      }
    }
  }
  options.order = 2;
  REFUSED(opst_finalize_routing(context, &row_view, plan, &options, &out_view), "order must be");
  options.order = 0;
  options.residual = NULL;
  REFUSED(opst_finalize_routing(context, &row_view, plan, &options, &out_view), "residual");
}

static void test_finalize_backward(void) {
  float d_rows[R * H], d_weights[T * K], d_bias[E * H];
  const opst_view d_out = opst_matrix(OPST_F32, x, T, H);  // any numbers
  const opst_view row_view = opst_matrix(OPST_F32, rows, R, H);
  const opst_view d_row_view = opst_matrix(OPST_F32, d_rows, R, H);
  const opst_view d_weight_view = opst_matrix(OPST_F32, d_weights, T, K);
  const opst_view d_bias_view = opst_matrix(OPST_F32, d_bias, E, H);
  opst_finalize_gradients gradients = OPST_FINALIZE_GRADIENTS_DEFAULT;
  gradients.d_expert_out = &d_row_view;
  gradients.d_weights = &d_weight_view;
  gradients.d_expert_bias = &d_bias_view;
  OK(opst_finalize_routing_backward(context, &d_out, &row_view, plan, NULL, &gradients));
  double wanted_bias[E * H] = {0};
  for (int slot = 0; slot < T * K; ++slot) {
    const int row = slot_to_row[slot];
    double product = 0;
    for (int h = 0; row >= 0 && h < H; ++h) {
      const double d = (double)x[slot / K * H + h];
      NEAR(d_rows[row * H + h], (double)weights[slot] * d, 1e-6);
      product += d * (double)rows[row * H + h];
      wanted_bias[ids[slot] * H + h] += (double)weights[slot] * d;
    }
    NEAR(d_weights[slot], product, 1e-6);
  }
  for (int i = 0; i < E * H; ++i) NEAR(d_bias[i], wanted_bias[i], 1e-6);
  REFUSED(opst_finalize_routing_backward(context, &d_out, NULL, plan, NULL, &gradients), "[");
  REFUSED(opst_finalize_routing_backward(context, &d_out, &row_view, plan, NULL, NULL),
          "gradients must not be NULL");
}

static void test_gather_and_scatter(void) {
  const int32_t indices[4] = {3, -1, 0, 3};
  const float factors[4] = {2, 5, .5f, -1};
  float out[4 * H], sums[T * H];
  const opst_view x_view = opst_matrix(OPST_F32, x, T, H);
  const opst_view index_view = opst_vector(OPST_I32, indices, 4);
  const opst_view factor_view = opst_vector(OPST_F32, factors, 4);
  const opst_view out_view = opst_matrix(OPST_F32, out, 4, H);
  const opst_view sum_view = opst_matrix(OPST_F32, sums, T, H);
  OK(opst_sparse_gather(context, &x_view, &index_view, &out_view));
  for (int r = 0; r < 4; ++r) {
    for (int h = 0; h < H; ++h) CHECK(out[r * H + h] == (r == 1 ? 0 : x[indices[r] * H + h]));
  }
  for (int mode = OPST_OVERWRITE; mode <= OPST_ADD; ++mode) {
    for (int i = 0; i < T * H; ++i) sums[i] = 1;
    OK(opst_sparse_scatter_add(context, &out_view, &index_view, &factor_view, mode, &sum_view));
    for (int t = 0; t < T; ++t) {
      const double factor = t == 3 ? 1 : t == 0 ? .5 : 0;
      for (int h = 0; h < H; ++h) {
        NEAR(sums[t * H + h], factor * (double)x[t * H + h] + mode, 1e-6);
      }
    }
  }
  const int32_t outside[4] = {0, 0, 5, 0};
  const opst_view outside_view = opst_vector(OPST_I32, outside, 4);
  REFUSED(opst_sparse_gather(context, &x_view, &outside_view, &out_view), "5");
  REFUSED(opst_sparse_gather(context, &x_view, NULL, &out_view), "row_indices must not be NULL");
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  fill_random(x, T * H, 1);
  fill_random(rows, R * H, 2);
  const opst_view id_view = opst_matrix(OPST_I32, ids, T, K);
  const opst_view weight_view = opst_matrix(OPST_F32, weights, T, K);
  OK(opst_routing_plan_build(context, &id_view, &weight_view, E, NULL, &plan));
  opst_routing_plan_arrays arrays = OPST_ROUTING_PLAN_ARRAYS_DEFAULT;
  OK(opst_routing_plan_get(plan, &arrays));
  CHECK(arrays.num_rows == R);
  row_to_slot = arrays.row_to_slot.data;
  slot_to_row = arrays.slot_to_row.data;
  test_permute();
  test_permute_quantized();
  test_finalize();
  test_finalize_backward();
  test_gather_and_scatter();
  OK(opst_routing_plan_destroy(plan));
  OK(opst_context_destroy(context));
  return finish();
}
