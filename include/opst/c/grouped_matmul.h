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

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_GROUPED_MATMUL_H_
