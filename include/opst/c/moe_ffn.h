// The fused MoE feed-forward layer, forward and backward.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_MOE_FFN_H_
#define OPST_C_MOE_FFN_H_

#include "opst/c/grouped_matmul.h"
#include "opst/c/routing_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

// The weights of E experts.
typedef struct opst_expert_weights {
  uint32_t struct_size;
  uint32_t reserved;
  const opst_packed_weights* gate_up;  // E x [2F, H], OPST_PANELS_GATE_UP; without a gate E x [F,
                                       // H], OPST_PANELS_PLAIN
  const opst_packed_weights* down;     // E x [H, F], OPST_PANELS_PLAIN
  const opst_view* gate_up_bias;       // [E, 2F] f32, gate first, or [E, F]; NULL = none
  const opst_view* down_bias;          // [E, H] f32; NULL = none
} opst_expert_weights;

#define OPST_EXPERT_WEIGHTS_DEFAULT                                                           \
  {                                                                                           \
    .struct_size = sizeof(opst_expert_weights), .reserved = 0, .gate_up = NULL, .down = NULL, \
    .gate_up_bias = NULL, .down_bias = NULL                                                   \
  }

typedef struct opst_moe_ffn_options {
  uint32_t struct_size;
  opst_activation activation;
  opst_output_mode output_mode;  // backward: of the gradients of weights and biases
  float alpha;                   // of CLAMPED_SWIGLU, as
  float limit;                   // this
  uint32_t reserved;
  uint64_t workspace_bytes;  // bound on the memory of a call; 0 = the setting stage1_buffer_size
} opst_moe_ffn_options;

#define OPST_MOE_FFN_OPTIONS_DEFAULT                                           \
  {                                                                            \
    .struct_size = sizeof(opst_moe_ffn_options), .activation = OPST_SILU,      \
    .output_mode = OPST_OVERWRITE, .alpha = 1.702f, .limit = 7, .reserved = 0, \
    .workspace_bytes = 0                                                       \
  }

// x [T, H] f32, bf16 or f16; plan of these T tokens and E experts -> out [T, H] of x's dtype or
// f32.
OPST_API opst_status opst_moe_ffn(const opst_context* context, const opst_view* x,
                                  const opst_routing_plan* plan, const opst_expert_weights* experts,
                                  const opst_moe_ffn_options* options, const opst_view* out);

// The weights as they are trained: f32, bf16 or f16, contiguous, one dtype.
typedef struct opst_expert_tensors {
  uint32_t struct_size;
  uint32_t reserved;
  const opst_view* gate_up;       // [E, 2F, H], gate rows first; without a gate [E, F, H]
  const opst_view* down;          // [E, H, F]
  const opst_view* gate_up_bias;  // [E, 2F] f32, without a gate [E, F]; NULL = none
  const opst_view* down_bias;     // [E, H] f32; NULL = none
  // What opst_grouped_matmul makes of the permuted x and gate_up, [R, 2F] (without a gate [R, F]),
  // kept from the forward call; NULL = computed again.
  const opst_view* saved_gate_up;
} opst_expert_tensors;

#define OPST_EXPERT_TENSORS_DEFAULT                                                           \
  {                                                                                           \
    .struct_size = sizeof(opst_expert_tensors), .reserved = 0, .gate_up = NULL, .down = NULL, \
    .gate_up_bias = NULL, .down_bias = NULL, .saved_gate_up = NULL                            \
  }

// Where opst_moe_ffn_backward writes; NULL = not wanted.
typedef struct opst_moe_ffn_gradients {
  uint32_t struct_size;
  uint32_t reserved;
  const opst_view* d_x;               // [T, H] f32, bf16 or f16
  const opst_view* d_expert_weights;  // [T, k] f32
  const opst_view* d_gate_up;         // f32, of gate_up's shape
  const opst_view* d_down;            // [E, H, F] f32
  const opst_view* d_gate_up_bias;    // [E, 2F] f32, without a gate [E, F]
  const opst_view* d_down_bias;       // [E, H] f32
} opst_moe_ffn_gradients;

#define OPST_MOE_FFN_GRADIENTS_DEFAULT                                                   \
  {                                                                                      \
    .struct_size = sizeof(opst_moe_ffn_gradients), .reserved = 0, .d_x = NULL,           \
    .d_expert_weights = NULL, .d_gate_up = NULL, .d_down = NULL, .d_gate_up_bias = NULL, \
    .d_down_bias = NULL                                                                  \
  }

// x and d_out [T, H] f32, bf16 or f16, with the plan of the forward call.
OPST_API opst_status opst_moe_ffn_backward(const opst_context* context, const opst_view* x,
                                           const opst_routing_plan* plan,
                                           const opst_expert_tensors* experts,
                                           const opst_view* d_out,
                                           const opst_moe_ffn_options* options,
                                           const opst_moe_ffn_gradients* gradients);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_MOE_FFN_H_
