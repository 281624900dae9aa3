// Grouped matrix product: consecutive groups of rows, each with a matrix of its own.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_GROUPED_MATMUL_H_
#define OPST_C_GROUPED_MATMUL_H_

#include "opst/c/activation.h"
#include "opst/c/pack.h"
#include "opst/c/sparse_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { OPST_NO_ACTIVATION = -1 };

typedef struct opst_grouped_matmul_options {
  uint32_t struct_size;
  opst_output_mode output_mode;
  const opst_view* bias;           // [E, N] f32; NULL = none
  const opst_view* group_experts;  // [G] i32, the matrix of each group; NULL = group g has matrix g
  opst_activation activation;      // of product and bias, before ADD; or OPST_NO_ACTIVATION
  uint32_t reserved;
} opst_grouped_matmul_options;

#define OPST_GROUPED_MATMUL_OPTIONS_DEFAULT                                              \
  {                                                                                      \
    .struct_size = sizeof(opst_grouped_matmul_options), .output_mode = OPST_OVERWRITE,   \
    .bias = NULL, .group_experts = NULL, .activation = OPST_NO_ACTIVATION, .reserved = 0 \
  }

// x [R, K] f32, bf16 or f16; group_offsets [G+1] i64, ascending from 0 to R; weights E x [N, K] in
// plain panels -> out [R, N].
OPST_API opst_status opst_grouped_matmul(const opst_context* context, const opst_view* x,
                                         const opst_view* group_offsets,
                                         const opst_packed_weights* weights,
                                         const opst_grouped_matmul_options* options,
                                         const opst_view* out);

// One group: x [R, K], weights 1 x [N, K] -> out [R, N].
OPST_API opst_status opst_matmul(const opst_context* context, const opst_view* x,
                                 const opst_packed_weights* weights, const opst_view* out);

// x [R, K], d_out [R, N], group_offsets [G+1] i64 -> d_weights [G, N, K] f32.
OPST_API opst_status opst_grouped_matmul_weight_gradient(const opst_context* context,
                                                         const opst_view* x, const opst_view* d_out,
                                                         const opst_view* group_offsets,
                                                         opst_output_mode mode,
                                                         const opst_view* d_weights);

typedef struct opst_grouped_matmul_quantize_options {
  uint32_t struct_size;
  opst_activation activation;
  float alpha;                     // of CLAMPED_SWIGLU
  float limit;                     // of CLAMPED_SWIGLU
  const opst_view* x_scales;       // [R] f32, of an i8 x; else NULL
  const opst_view* bias;           // [E, 2F] f32, without a gate [E, F]; NULL = none
  const opst_view* smooth;         // [E, F] or [1, F] f32; NULL = none
  const opst_view* group_experts;  // as in opst_grouped_matmul_options
  uint64_t workspace_bytes;        // 0 = the setting stage1_buffer_size
} opst_grouped_matmul_quantize_options;

#define OPST_GROUPED_MATMUL_QUANTIZE_OPTIONS_DEFAULT                                      \
  {                                                                                       \
    .struct_size = sizeof(opst_grouped_matmul_quantize_options), .activation = OPST_SILU, \
    .alpha = 1.702f, .limit = 7.0f, .x_scales = NULL, .bias = NULL, .smooth = NULL,       \
    .group_experts = NULL, .workspace_bytes = 0                                           \
  }

// x [R, K] f32, bf16, f16 or i8; weights E x [2F, K] in gate_up panels, without a gate [F, K] in
// plain ones -> values [R, F] i8 and scales [R] f32 of act(gate) * up.
OPST_API opst_status opst_grouped_matmul_quantize(
    const opst_context* context, const opst_view* x, const opst_view* group_offsets,
    const opst_packed_weights* weights, const opst_grouped_matmul_quantize_options* options,
    const opst_view* values, const opst_view* scales);

typedef struct opst_grouped_matmul_finalize_options {
  uint32_t struct_size;
  opst_output_mode output_mode;
  const opst_view* row_indices;    // [R] i32, the row of out, -1 = none; required
  const opst_view* row_weights;    // [R] f32; NULL = all 1
  const opst_view* x_scales;       // [R] f32, of an i8 x; else NULL
  const opst_view* bias;           // [E, N] f32, before the weight; NULL = none
  const opst_view* shared;         // [S, N], added first; NULL = none
  int64_t first_shared_row;        // of out
  const opst_view* group_experts;  // as in opst_grouped_matmul_options
  float shared_weight;
  uint32_t reserved;
} opst_grouped_matmul_finalize_options;

#define OPST_GROUPED_MATMUL_FINALIZE_OPTIONS_DEFAULT                                            \
  {                                                                                             \
    .struct_size = sizeof(opst_grouped_matmul_finalize_options), .output_mode = OPST_OVERWRITE, \
    .row_indices = NULL, .row_weights = NULL, .x_scales = NULL, .bias = NULL, .shared = NULL,   \
    .first_shared_row = 0, .group_experts = NULL, .shared_weight = 1, .reserved = 0             \
  }

// x [R, K] f32, bf16, f16 or i8; weights E x [N, K] in plain panels -> out [T, N], the weighted sum
// of the products' rows.
OPST_API opst_status opst_grouped_matmul_finalize(
    const opst_context* context, const opst_view* x, const opst_view* group_offsets,
    const opst_packed_weights* weights, const opst_grouped_matmul_finalize_options* options,
    const opst_view* out);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_GROUPED_MATMUL_H_
