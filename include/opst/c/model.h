// opst_model: a decoder of a packed file, and opst_sequence, the tokens it has seen. No text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_MODEL_H_
#define OPST_C_MODEL_H_

#include "opst/c/gating.h"

#ifdef __cplusplus
extern "C" {
#endif

// Threads: usable from several threads, each with a sequence of its own.
typedef struct opst_model opst_model;

// Keys and values of the tokens so far. Threads: used by one thread at a time.
typedef struct opst_sequence opst_sequence;

// A file that opst_convert wrote; mapped or read as the setting `load` says.
OPST_API opst_status opst_model_load(const opst_context* context, const char* path,
                                     opst_model** model);
OPST_API opst_status opst_model_destroy(opst_model* model);

typedef struct opst_model_info {
  uint32_t struct_size;
  uint32_t reserved;
  const char* family;  // "qwen3_moe"; lives as long as the model
  int64_t num_layers;
  int64_t vocab_size;  // V
  int64_t hidden;
  int64_t num_experts;  // of a MoE layer
  int64_t top_k;
  int64_t max_positions;  // trained context length
  uint64_t weight_bytes;  // in the file
  uint64_t routed_expert_bytes;
} opst_model_info;

#define OPST_MODEL_INFO_DEFAULT                                                             \
  {                                                                                         \
    .struct_size = sizeof(opst_model_info), .reserved = 0, .family = NULL, .num_layers = 0, \
    .vocab_size = 0, .hidden = 0, .num_experts = 0, .top_k = 0, .max_positions = 0,         \
    .weight_bytes = 0, .routed_expert_bytes = 0                                             \
  }

OPST_API opst_status opst_model_get(const opst_model* model, opst_model_info* info);

// A text file that came with the checkpoint, "tokenizer.json"; its bytes live as long as the model
// and end without a NUL. Errors: OPST_IO when there is none.
OPST_API opst_status opst_model_text_file(const opst_model* model, const char* name,
                                          const char** text, size_t* length);

OPST_API opst_status opst_sequence_create(const opst_model* model, int64_t capacity,
                                          opst_sequence** sequence);
OPST_API opst_status opst_sequence_destroy(opst_sequence* sequence);
OPST_API opst_status opst_sequence_length(const opst_sequence* sequence, int64_t* length);
// Forgets all tokens but the first `length`.
OPST_API opst_status opst_sequence_truncate(opst_sequence* sequence, int64_t length);
// Says before the first token how long the prompt is, for models whose positions depend on it.
OPST_API opst_status opst_sequence_expect_length(opst_sequence* sequence, int64_t num_tokens);

// An expert of one layer, or of all (-1).
typedef struct opst_expert_name {
  int64_t layer;
  int64_t expert;
} opst_expert_name;

// What a caller changes in the routing of a model.
typedef struct opst_model_experts {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t active_experts;          // experts per token; 0 = the model's
  const opst_expert_name* masked;  // [num_masked], never chosen
  int64_t num_masked;
  const opst_expert_name* forced;  // [num_forced]; in their layers no other is chosen
  int64_t num_forced;
  const opst_selection_options* selection;  // NULL = the model's
} opst_model_experts;

#define OPST_MODEL_EXPERTS_DEFAULT                                                                 \
  {                                                                                                \
    .struct_size = sizeof(opst_model_experts), .reserved = 0, .active_experts = 0, .masked = NULL, \
    .num_masked = 0, .forced = NULL, .num_forced = 0, .selection = NULL                            \
  }

// Gets the plan of each MoE layer; its arrays live until the callback returns.
typedef void (*opst_routing_callback)(void* user, int64_t layer,
                                      const opst_routing_plan_arrays* plan);
// Gets the residual stream [T, H] f32 behind each layer; it lives until the callback returns.
typedef void (*opst_layer_callback)(void* user, int64_t layer, const opst_view* x);

typedef struct opst_forward_options {
  uint32_t struct_size;
  uint32_t reserved;
  const opst_model_experts* experts;  // NULL = the model's routing
  opst_routing_callback on_routing;   // NULL = not wanted
  opst_layer_callback on_layer;       // NULL = not wanted
  void* user;                         // first argument of the callbacks
} opst_forward_options;

#define OPST_FORWARD_OPTIONS_DEFAULT                                             \
  {                                                                              \
    .struct_size = sizeof(opst_forward_options), .reserved = 0, .experts = NULL, \
    .on_routing = NULL, .on_layer = NULL, .user = NULL                           \
  }

// Appends tokens [n] i32 to the sequence and computes logits [m, V] f32 of the last m of them.
OPST_API opst_status opst_model_forward(const opst_context* context, const opst_model* model,
                                        const opst_view* tokens, opst_sequence* sequence,
                                        const opst_forward_options* options,
                                        const opst_view* logits);

typedef struct opst_batch_entry {
  const opst_view* tokens;  // [n] i32
  opst_sequence* sequence;
} opst_batch_entry;

// New tokens of several sequences at once -> logits [num_entries, V] f32 of the last of each.
OPST_API opst_status opst_model_forward_batch(const opst_context* context, const opst_model* model,
                                              const opst_batch_entry* entries, int64_t num_entries,
                                              const opst_forward_options* options,
                                              const opst_view* logits);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_MODEL_H_
