// opst_packed_weights: matrices in the panels that products read. Multiplies nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_PACK_H_
#define OPST_C_PACK_H_

#include "opst/c/context.h"
#include "opst/c/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// E matrices [N, K] of one format. Threads: immutable, usable from several threads.
typedef struct opst_packed_weights opst_packed_weights;

typedef int32_t opst_weight_format;
enum {
  OPST_WEIGHTS_F32 = 0,
  OPST_WEIGHTS_BF16 = 1,
  OPST_WEIGHTS_F16 = 2,
  OPST_WEIGHTS_INT8 = 3,  // with a scale for every group of inputs
  OPST_WEIGHTS_INT4 = 4,  // the same
  OPST_WEIGHTS_MXFP4 = 5  // 4-bit floats, a power of two for every 32
};

typedef int32_t opst_panel_order;
enum {
  OPST_PANELS_PLAIN = 0,
  OPST_PANELS_GATE_UP = 1  // N = 2F: gate rows, then up rows; for opst_moe_ffn
};

typedef struct opst_pack_options {
  uint32_t struct_size;
  opst_weight_format format;
  opst_panel_order order;
  uint32_t reserved;
  int64_t group;  // inputs that share a scale, of integers: 32, 64 or 128
} opst_pack_options;

#define OPST_PACK_OPTIONS_DEFAULT                                         \
  {                                                                       \
    .struct_size = sizeof(opst_pack_options), .format = OPST_WEIGHTS_F32, \
    .order = OPST_PANELS_PLAIN, .reserved = 0, .group = 32                \
  }

// weights [E, N, K] f32, bf16 or f16, contiguous; copied.
OPST_API opst_status opst_pack_experts(const opst_context* context, const opst_view* weights,
                                       const opst_pack_options* options,
                                       opst_packed_weights** packed);
// weights [E, K, N]: the transposes of its matrices. Only plain panels.
OPST_API opst_status opst_pack_experts_transposed(const opst_context* context,
                                                  const opst_view* weights,
                                                  const opst_pack_options* options,
                                                  opst_packed_weights** packed);
OPST_API opst_status opst_packed_weights_destroy(opst_packed_weights* packed);

typedef struct opst_packed_weights_info {
  uint32_t struct_size;
  opst_weight_format format;
  opst_panel_order order;
  uint32_t reserved;
  int64_t num_experts;  // E
  int64_t out;          // N
  int64_t in;           // K
  int64_t group;        // inputs that share a scale, of integers
  uint64_t num_bytes;   // of all panels
} opst_packed_weights_info;

#define OPST_PACKED_WEIGHTS_INFO_DEFAULT                                                     \
  {                                                                                          \
    .struct_size = sizeof(opst_packed_weights_info), .format = 0, .order = 0, .reserved = 0, \
    .num_experts = 0, .out = 0, .in = 0, .group = 0, .num_bytes = 0                          \
  }

OPST_API opst_status opst_packed_weights_get(const opst_packed_weights* packed,
                                             opst_packed_weights_info* info);
// W[expert, row, k], slowly.
OPST_API opst_status opst_packed_weights_at(const opst_packed_weights* packed, int64_t expert,
                                            int64_t row, int64_t k, float* value);

// "f32", "bf16", "f16", "int8", "int4", "mxfp4"
OPST_API opst_status opst_weight_format_name(opst_weight_format format, const char** name);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_PACK_H_
