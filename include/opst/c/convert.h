// Conversion of a Hugging Face checkpoint or a GGUF file into one packed file, and back.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_CONVERT_H_
#define OPST_C_CONVERT_H_

#include "opst/c/pack.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t opst_moe_of_dense;
enum { OPST_MOE_OF_DENSE_NONE = 0, OPST_MOE_OF_DENSE_UPCYCLE = 1, OPST_MOE_OF_DENSE_SPLIT = 2 };

// No rounding: float weights keep their dtype.
enum { OPST_WEIGHTS_KEPT = -1 };

// Bytes of tensors written so far, and of the whole file.
typedef void (*opst_convert_callback)(void* user, uint64_t done_bytes, uint64_t total_bytes);

typedef struct opst_convert_options {
  uint32_t struct_size;
  int32_t overwrites;                 // 1 = an existing output is replaced
  int32_t is_strict;                  // 1 = unknown fields of config.json are errors
  opst_dtype expanded;                // what quantised tensors become: f32, bf16 or f16
  opst_moe_of_dense moe_of_dense;     // makes a MoE of a dense model
  opst_weight_format quantized;       // what experts, dense blocks and attention are rounded to:
                                      // int8, int4, or OPST_WEIGHTS_KEPT; mxfp4: experts alone
  int32_t expands_mxfp4;              // 1 = experts in MXFP4 become `expanded`, too; 0 = they stay
  int32_t reserved;                   // 0
  int64_t group;                      // inputs that share a scale of those: 32, 64 or 128
  int64_t num_experts;                // of that MoE
  int64_t top_k;                      // of that MoE
  opst_convert_callback on_progress;  // NULL = not wanted
  void* user;                         // its first argument
} opst_convert_options;

#define OPST_CONVERT_OPTIONS_DEFAULT                                                               \
  {                                                                                                \
    .struct_size = sizeof(opst_convert_options), .overwrites = 0, .is_strict = 0,                  \
    .expanded = OPST_BF16, .moe_of_dense = OPST_MOE_OF_DENSE_NONE, .quantized = OPST_WEIGHTS_KEPT, \
    .expands_mxfp4 = 0, .reserved = 0, .group = 32, .num_experts = 0, .top_k = 0,                  \
    .on_progress = NULL, .user = NULL                                                              \
  }

// What a conversion did. Threads: immutable, usable from several threads.
typedef struct opst_conversion opst_conversion;

// `source`: a folder with config.json and *.safetensors, or a .gguf file. The output appears only
// when it is complete. conversion = NULL: no report is wanted.
OPST_API opst_status opst_convert(const opst_context* context, const char* source,
                                  const char* output, const opst_convert_options* options,
                                  opst_conversion** conversion);
OPST_API opst_status opst_conversion_destroy(opst_conversion* conversion);

// Texts and arrays live as long as the conversion.
typedef struct opst_conversion_info {
  uint32_t struct_size;
  uint32_t reserved;
  const char* family;
  int64_t num_source_tensors;
  uint64_t source_bytes;
  uint64_t output_bytes;
  const char* const* unused_tensors;  // [num_unused_tensors], known not to matter
  int64_t num_unused_tensors;
  const char* const* unknown_fields;  // [num_unknown_fields], of config.json
  int64_t num_unknown_fields;
} opst_conversion_info;

#define OPST_CONVERSION_INFO_DEFAULT                                                       \
  {                                                                                        \
    .struct_size = sizeof(opst_conversion_info), .reserved = 0, .family = NULL,            \
    .num_source_tensors = 0, .source_bytes = 0, .output_bytes = 0, .unused_tensors = NULL, \
    .num_unused_tensors = 0, .unknown_fields = NULL, .num_unknown_fields = 0               \
  }

OPST_API opst_status opst_conversion_get(const opst_conversion* conversion,
                                         opst_conversion_info* info);

// Largest distances, over the largest value of the plain evaluation.
typedef struct opst_verify_report {
  uint32_t struct_size;
  int32_t is_equal;
  double max_error;  // of the logits
  int64_t worst_position;
  int64_t worst_token;
  int64_t num_layers;
  int64_t first_diverging_layer;  // -1 = none
} opst_verify_report;

#define OPST_VERIFY_REPORT_DEFAULT                                                                 \
  {                                                                                                \
    .struct_size = sizeof(opst_verify_report), .is_equal = 0, .max_error = 0, .worst_position = 0, \
    .worst_token = 0, .num_layers = 0, .first_diverging_layer = -1                                 \
  }

// Compares a text through `output` with a plain evaluation of `source`. layer_errors [num_layers],
// of the residual stream, is the caller's (opst_free); NULL = not wanted.
OPST_API opst_status opst_verify(const opst_context* context, const char* source,
                                 const char* output, const opst_convert_options* options,
                                 opst_verify_report* report, double** layer_errors);

// Writes the tensors of a packed file back into a new folder, bit for bit.
OPST_API opst_status opst_export_to_hugging_face(const char* packed, const char* folder);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_CONVERT_H_
