// Packing and grouped products from C, with the gradient of the weights, against plain loops.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

enum { R = 7, K = 21, N = 18, E = 3 };

static opst_context* context;
static float x[R * K];
static float w[E * N * K];
static const int64_t offsets[E + 1] = {0, 4, 4, R};

static int group_of(int row) { return row < 4 ? 0 : 2; }

// x[row] . W[expert][n]
static double product(int row, int expert, int n) {
  double sum = 0;
  for (int k = 0; k < K; ++k) sum += (double)x[row * K + k] * (double)w[(expert * N + n) * K + k];
  return sum;
}

static opst_packed_weights* pack(opst_weight_format format) {
  const opst_view view = opst_matrices(OPST_F32, w, E, N, K);
  opst_pack_options options = OPST_PACK_OPTIONS_DEFAULT;
  options.format = format;
  options.group = 64;
  opst_packed_weights* packed = NULL;
  OK(opst_pack_experts(context, &view, &options, &packed));
  return packed;
}

static void test_packed_weights(void) {
  // Weights are below 1/2: half a unit of the last place, of the scale 1/2 / 127, or two of 1/2
  // / 8.
  const double tolerances[] = {0, 1.0 / 512, 1.0 / 4096, 0.5 / 127, 1.0 / 8};
  const int64_t least_bits[] = {32, 16, 16, 8, 4};
  for (opst_weight_format format = OPST_WEIGHTS_F32; format <= OPST_WEIGHTS_INT4; ++format) {
    opst_packed_weights* packed = pack(format);
    opst_packed_weights_info info = OPST_PACKED_WEIGHTS_INFO_DEFAULT;
    OK(opst_packed_weights_get(packed, &info));
    CHECK(info.format == format && info.order == OPST_PANELS_PLAIN);
    CHECK(info.num_experts == E && info.out == N && info.in == K && info.group == 64);
    CHECK(info.num_bytes >= (uint64_t)(E * N * K * least_bits[format] / 8));
    for (int e = 0; e < E; ++e) {
      for (int n = 0; n < N; ++n) {
        float value = 0;
        OK(opst_packed_weights_at(packed, e, n, n, &value));
        NEAR(value, w[(e * N + n) * K + n], tolerances[format]);
      }
    }
    float value = 0;
    REFUSED(opst_packed_weights_at(packed, E, 0, 0, &value), "expert must be in 0");
    REFUSED(opst_packed_weights_at(packed, 0, -1, 0, &value), "row must be in 0");
    REFUSED(opst_packed_weights_at(packed, 0, 0, K, &value), "k must be in 0");
    OK(opst_packed_weights_destroy(packed));
  }
  opst_packed_weights* packed = NULL;
  const opst_view flat = opst_vector(OPST_F32, w, E * N);
  REFUSED(opst_pack_experts(context, &flat, NULL, &packed), "[pack]");
  opst_pack_options options = OPST_PACK_OPTIONS_DEFAULT;
  options.order = OPST_PANELS_GATE_UP;
  const opst_view odd = opst_matrices(OPST_F32, w, E, 3, K);
  REFUSED(opst_pack_experts(context, &odd, &options, &packed), "[pack]");
  REFUSED(opst_pack_experts_transposed(context, &odd, &options, &packed), "order must be plain");
  options = (opst_pack_options)OPST_PACK_OPTIONS_DEFAULT;
  options.format = OPST_WEIGHTS_INT4;
  options.group = 7;
  REFUSED(opst_pack_experts(context, &odd, &options, &packed), "group");
  CHECK(packed == NULL);
}

static void test_grouped_matmul(void) {
  float out[R * N], bias[E * N];
  fill_random(bias, E * N, 4);
  opst_packed_weights* packed = pack(OPST_WEIGHTS_F32);
  const opst_view x_view = opst_matrix(OPST_F32, x, R, K);
  const opst_view out_view = opst_matrix(OPST_F32, out, R, N);
  const opst_view offset_view = opst_vector(OPST_I64, offsets, E + 1);
  OK(opst_grouped_matmul(context, &x_view, &offset_view, packed, NULL, &out_view));
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) NEAR(out[r * N + n], product(r, group_of(r), n), 1e-6);
  }

  // Two groups with matrices 2 and 1, their biases, added to what is there.
  const int64_t two_offsets[3] = {0, 4, R};
  const int32_t matrices[2] = {2, 1};
  const opst_view two = opst_vector(OPST_I64, two_offsets, 3);
  const opst_view matrix_view = opst_vector(OPST_I32, matrices, 2);
  const opst_view bias_view = opst_matrix(OPST_F32, bias, E, N);
  opst_grouped_matmul_options options = OPST_GROUPED_MATMUL_OPTIONS_DEFAULT;
  options.output_mode = OPST_ADD;
  options.bias = &bias_view;
  options.group_experts = &matrix_view;
  for (int i = 0; i < R * N; ++i) out[i] = 1;
  OK(opst_grouped_matmul(context, &x_view, &two, packed, &options, &out_view));
  for (int r = 0; r < R; ++r) {
    const int expert = r < 4 ? 2 : 1;
    for (int n = 0; n < N; ++n) {
      NEAR(out[r * N + n], 1 + product(r, expert, n) + (double)bias[expert * N + n], 1e-6);
    }
  }

  // An activation comes before what is there is added.
  options.activation = OPST_RELU;
  for (int i = 0; i < R * N; ++i) out[i] = 1;
  OK(opst_grouped_matmul(context, &x_view, &two, packed, &options, &out_view));
  for (int r = 0; r < R; ++r) {
    const int expert = r < 4 ? 2 : 1;
    for (int n = 0; n < N; ++n) {
      const double sum = product(r, expert, n) + (double)bias[expert * N + n];
      NEAR(out[r * N + n], 1 + fmax(0, sum), 1e-6);
    }
  }
  options.activation = -2;
  REFUSED(opst_grouped_matmul(context, &x_view, &two, packed, &options, &out_view), "activation");
  options.activation = OPST_NO_ACTIVATION;

  REFUSED(opst_grouped_matmul(context, &x_view, &two, packed, NULL, &out_view), "[grouped_matmul]");
  REFUSED(opst_grouped_matmul(context, &x_view, &x_view, packed, NULL, &out_view),
          "group_offsets must be i64");
  REFUSED(opst_grouped_matmul(context, &out_view, &offset_view, packed, NULL, &out_view), "dim");
  REFUSED(opst_grouped_matmul(context, &x_view, &offset_view, NULL, NULL, &out_view),
          "weights must not be NULL");
  options.output_mode = 9;
  REFUSED(opst_grouped_matmul(context, &x_view, &two, packed, &options, &out_view),
          "output_mode must be one of");
  OK(opst_packed_weights_destroy(packed));
}

// One matrix, and its transpose: the gradient of the input.
static void test_matmul_and_transposed(void) {
  const opst_view one = opst_matrices(OPST_F32, w, 1, N, K);
  opst_packed_weights *packed = NULL, *transposed = NULL;
  OK(opst_pack_experts(context, &one, NULL, &packed));
  OK(opst_pack_experts_transposed(context, &one, NULL, &transposed));
  float out[R * N], d_x[R * K];
  const opst_view x_view = opst_matrix(OPST_F32, x, R, K);
  const opst_view out_view = opst_matrix(OPST_F32, out, R, N);
  const opst_view d_x_view = opst_matrix(OPST_F32, d_x, R, K);
  OK(opst_matmul(context, &x_view, packed, &out_view));
  OK(opst_matmul(context, &out_view, transposed, &d_x_view));
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) NEAR(out[r * N + n], product(r, 0, n), 1e-6);
    for (int k = 0; k < K; ++k) {
      double sum = 0;
      for (int n = 0; n < N; ++n) sum += (double)out[r * N + n] * (double)w[n * K + k];
      NEAR(d_x[r * K + k], sum, 1e-5);
    }
  }
  REFUSED(opst_matmul(context, &x_view, transposed, &out_view), "[");
  OK(opst_packed_weights_destroy(packed));
  OK(opst_packed_weights_destroy(transposed));
}

// Integer weights count as the numbers they stand for; x is rounded to 16 bits.
static void test_integer_weights(void) {
  for (opst_weight_format format = OPST_WEIGHTS_INT8; format <= OPST_WEIGHTS_INT4; ++format) {
    opst_packed_weights* packed = pack(format);
    float out[R * N];
    const opst_view x_view = opst_matrix(OPST_F32, x, R, K);
    const opst_view out_view = opst_matrix(OPST_F32, out, R, N);
    const opst_view offset_view = opst_vector(OPST_I64, offsets, E + 1);
    OK(opst_grouped_matmul(context, &x_view, &offset_view, packed, NULL, &out_view));
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n) {
        double sum = 0, bound = 1e-6;
        for (int k = 0; k < K; ++k) {
          float weight = 0;
          OK(opst_packed_weights_at(packed, group_of(r), n, k, &weight));
          sum += (double)x[r * K + k] * (double)weight;
          bound += fabs((double)weight) * 0.5 * 0.5 / 32767;  // half a step of |x| < 1/2
        }
        NEAR(out[r * N + n], sum, bound);
      }
    }
    OK(opst_packed_weights_destroy(packed));
  }
}

// Int8 rows in, ReLU, int8 rows out; no gate.
static void test_quantized_product(void) {
  int8_t integers[R * K], values[R * N];
  float x_scales[R], scales[R];
  for (int r = 0; r < R; ++r) {
    x_scales[r] = 0.25F / (float)(r + 1);
    for (int k = 0; k < K; ++k) integers[r * K + k] = (int8_t)((r * 37 + k * 11) % 255 - 127);
  }
  opst_packed_weights* packed = pack(OPST_WEIGHTS_F32);
  const opst_view x_view = opst_matrix(OPST_I8, integers, R, K);
  const opst_view offset_view = opst_vector(OPST_I64, offsets, E + 1);
  const opst_view x_scale_view = opst_vector(OPST_F32, x_scales, R);
  const opst_view value_view = opst_matrix(OPST_I8, values, R, N);
  const opst_view scale_view = opst_vector(OPST_F32, scales, R);
  opst_grouped_matmul_quantize_options options = OPST_GROUPED_MATMUL_QUANTIZE_OPTIONS_DEFAULT;
  options.activation = OPST_RELU;
  options.x_scales = &x_scale_view;
  OK(opst_grouped_matmul_quantize(context, &x_view, &offset_view, packed, &options, &value_view,
                                  &scale_view));
  for (int r = 0; r < R; ++r) {
    double most = 0;
    for (int n = 0; n < N; ++n) {
      double sum = 0;
      for (int k = 0; k < K; ++k) {
        sum += integers[r * K + k] * (double)w[(group_of(r) * N + n) * K + k];
      }
      const double wanted = fmax(0, sum * (double)x_scales[r]);
      most = fmax(most, wanted);
      NEAR(values[r * N + n] * (double)scales[r], wanted, (double)scales[r] * 0.501 + 1e-5);
    }
    NEAR(scales[r], most / 127, 1e-6);
  }
  options.x_scales = NULL;
  REFUSED(opst_grouped_matmul_quantize(context, &x_view, &offset_view, packed, &options,
                                       &value_view, &scale_view),
          "[grouped_matmul_quantize] x_scales");
  OK(opst_packed_weights_destroy(packed));
}

// Rows 0, 2, 4 … go to token 0, the others to token 1; token 1 starts with a shared row.
static void test_finalized_product(void) {
  float out[2 * N], shared[N], row_weights[R];
  int32_t targets[R];
  fill_random(shared, N, 5);
  fill_random(row_weights, R, 6);
  for (int r = 0; r < R; ++r) targets[r] = r % 2;
  opst_packed_weights* packed = pack(OPST_WEIGHTS_F32);
  const opst_view x_view = opst_matrix(OPST_F32, x, R, K);
  const opst_view offset_view = opst_vector(OPST_I64, offsets, E + 1);
  const opst_view target_view = opst_vector(OPST_I32, targets, R);
  const opst_view weight_view = opst_vector(OPST_F32, row_weights, R);
  const opst_view shared_view = opst_matrix(OPST_F32, shared, 1, N);
  const opst_view out_view = opst_matrix(OPST_F32, out, 2, N);
  opst_grouped_matmul_finalize_options options = OPST_GROUPED_MATMUL_FINALIZE_OPTIONS_DEFAULT;
  options.row_indices = &target_view;
  options.row_weights = &weight_view;
  options.shared = &shared_view;
  options.first_shared_row = 1;
  options.shared_weight = 0.5F;
  OK(opst_grouped_matmul_finalize(context, &x_view, &offset_view, packed, &options, &out_view));
  for (int n = 0; n < N; ++n) {
    double sums[2] = {0, 0.5 * (double)shared[n]};
    for (int r = 0; r < R; ++r) sums[r % 2] += (double)row_weights[r] * product(r, group_of(r), n);
    for (int t = 0; t < 2; ++t) NEAR(out[t * N + n], sums[t], 1e-5);
  }
  targets[3] = 2;
  REFUSED(opst_grouped_matmul_finalize(context, &x_view, &offset_view, packed, &options, &out_view),
          "invalid row index 2 at [3]");
  REFUSED(opst_grouped_matmul_finalize(context, &x_view, &offset_view, packed, NULL, &out_view),
          "options must not be NULL");
  OK(opst_packed_weights_destroy(packed));
}

static void test_weight_gradient(void) {
  float d_out[R * N], d_w[E * N * K];
  fill_random(d_out, R * N, 8);
  const opst_view x_view = opst_matrix(OPST_F32, x, R, K);
  const opst_view d_out_view = opst_matrix(OPST_F32, d_out, R, N);
  const opst_view offset_view = opst_vector(OPST_I64, offsets, E + 1);
  const opst_view d_w_view = opst_matrices(OPST_F32, d_w, E, N, K);
  OK(opst_grouped_matmul_weight_gradient(context, &x_view, &d_out_view, &offset_view,
                                         OPST_OVERWRITE, &d_w_view));
  for (int e = 0; e < E; ++e) {
    for (int n = 0; n < N; ++n) {
      for (int k = 0; k < K; ++k) {
        double sum = 0;
        for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
          sum += (double)d_out[r * N + n] * (double)x[r * K + k];
        }
        NEAR(d_w[(e * N + n) * K + k], sum, 1e-6);
      }
    }
  }
  REFUSED(opst_grouped_matmul_weight_gradient(context, &x_view, &d_out_view, &offset_view, 5,
                                              &d_w_view),
          "mode must be one of");
  REFUSED(opst_grouped_matmul_weight_gradient(context, &x_view, &x_view, &offset_view,
                                              OPST_OVERWRITE, &d_w_view),
          "[");
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  fill_random(x, R * K, 1);
  fill_random(w, E * N * K, 2);
  test_packed_weights();
  test_grouped_matmul();
  test_matmul_and_transposed();
  test_integer_weights();
  test_quantized_product();
  test_finalized_product();
  test_weight_gradient();
  OK(opst_context_destroy(context));
  return finish();
}
