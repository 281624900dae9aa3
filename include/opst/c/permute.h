// Movement of tokens into expert order and back as a weighted sum, with gradients.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_PERMUTE_H_
#define OPST_C_PERMUTE_H_

#include "opst/c/routing_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

// x [T, H] f32, bf16 or f16 -> out [R, H] of x's dtype.
OPST_API opst_status opst_permute(const opst_context* context, const opst_view* x,
                                  const opst_routing_plan* plan, const opst_view* out);

// d_out [R, H] -> d_x [T, H], both f32, bf16 or f16.
OPST_API opst_status opst_permute_backward(const opst_context* context, const opst_view* d_out,
                                           const opst_routing_plan* plan, const opst_view* d_x);

typedef int32_t opst_row_quantization;
enum { OPST_QUANTIZE_STATIC = 0, OPST_QUANTIZE_DYNAMIC = 1 };

typedef struct opst_quantized_permute_options {
  uint32_t struct_size;
  opst_row_quantization quantization;
  float scale;              // of STATIC
  float offset;             // of STATIC
  const opst_view* smooth;  // of DYNAMIC: [E, H] or [1, H] f32; NULL = none
} opst_quantized_permute_options;

#define OPST_QUANTIZED_PERMUTE_OPTIONS_DEFAULT                                                    \
  {                                                                                               \
    .struct_size = sizeof(opst_quantized_permute_options), .quantization = OPST_QUANTIZE_DYNAMIC, \
    .scale = 1, .offset = 0, .smooth = NULL                                                       \
  }

// x [T, H] -> out [R, H] i8 and scales [R] f32; scales is NULL for STATIC.
OPST_API opst_status opst_permute_quantized(const opst_context* context, const opst_view* x,
                                            const opst_routing_plan* plan,
                                            const opst_quantized_permute_options* options,
                                            const opst_view* out, const opst_view* scales);

typedef int32_t opst_summation_order;
enum { OPST_SUM_BY_EXPERT = 0, OPST_SUM_BY_SLOT = 1 };

typedef struct opst_finalize_options {
  uint32_t struct_size;
  opst_summation_order order;
  const opst_view* residual;         // [T, H]; NULL = none
  const opst_view* second_residual;  // [T, H]; needs the first
  const opst_view* expert_bias;      // [E, H]; NULL = none
} opst_finalize_options;

#define OPST_FINALIZE_OPTIONS_DEFAULT                                                            \
  {                                                                                              \
    .struct_size = sizeof(opst_finalize_options), .order = OPST_SUM_BY_EXPERT, .residual = NULL, \
    .second_residual = NULL, .expert_bias = NULL                                                 \
  }

// expert_out [R, H] -> out [T, H], both f32, bf16 or f16.
OPST_API opst_status opst_finalize_routing(const opst_context* context, const opst_view* expert_out,
                                           const opst_routing_plan* plan,
                                           const opst_finalize_options* options,
                                           const opst_view* out);

// Where opst_finalize_routing_backward writes; NULL = not wanted.
typedef struct opst_finalize_gradients {
  uint32_t struct_size;
  uint32_t reserved;
  const opst_view* d_expert_out;   // [R, H] f32, bf16 or f16
  const opst_view* d_weights;      // [T, k] f32
  const opst_view* d_expert_bias;  // [E, H] f32
} opst_finalize_gradients;

#define OPST_FINALIZE_GRADIENTS_DEFAULT                                                  \
  {                                                                                      \
    .struct_size = sizeof(opst_finalize_gradients), .reserved = 0, .d_expert_out = NULL, \
    .d_weights = NULL, .d_expert_bias = NULL                                             \
  }

// d_out [T, H]; expert_out [R, H] and expert_bias [E, H] of the forward call. expert_out may be
// NULL when d_weights is not wanted, expert_bias when there was none.
OPST_API opst_status opst_finalize_routing_backward(const opst_context* context,
                                                    const opst_view* d_out,
                                                    const opst_view* expert_out,
                                                    const opst_routing_plan* plan,
                                                    const opst_view* expert_bias,
                                                    const opst_finalize_gradients* gradients);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_PERMUTE_H_
