// Auxiliary losses of the router, forward and backward: balance, z-loss and importance.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_LOSS_H_
#define OPST_C_LOSS_H_

#include "opst/c/context.h"
#include "opst/c/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the rows [T, E] of a loss hold.
typedef int32_t opst_router_values;
enum { OPST_SOFTMAX_LOGITS = 0, OPST_SIGMOID_LOGITS = 1, OPST_PROBABILITIES = 2 };

typedef int32_t opst_balance_count;
enum { OPST_COUNT_PER_CHOICE = 0, OPST_COUNT_FIRST_CHOICE = 1, OPST_COUNT_PER_TOKEN = 2 };

typedef struct opst_balance_loss_options {
  uint32_t struct_size;
  float coefficient;
  opst_router_values values;
  opst_balance_count count;
  int64_t sequence_length;      // above 0 = the mean over sequences of so many tokens
  const opst_view* is_padding;  // [T] u8 or bool; NULL = none
} opst_balance_loss_options;

#define OPST_BALANCE_LOSS_OPTIONS_DEFAULT                                                \
  {                                                                                      \
    .struct_size = sizeof(opst_balance_loss_options), .coefficient = 0.01f,              \
    .values = OPST_SOFTMAX_LOGITS, .count = OPST_COUNT_PER_CHOICE, .sequence_length = 0, \
    .is_padding = NULL                                                                   \
  }

// values [T, E] f32; expert_ids [T, k] i32, best first, -1 = an empty slot.
OPST_API opst_status opst_balance_loss(const opst_context* context, const opst_view* values,
                                       const opst_view* expert_ids,
                                       const opst_balance_loss_options* options, double* loss);
// d_values [T, E] f32 += d_loss * gradient.
OPST_API opst_status opst_balance_loss_backward(const opst_context* context,
                                                const opst_view* values,
                                                const opst_view* expert_ids,
                                                const opst_balance_loss_options* options,
                                                double d_loss, const opst_view* d_values);

typedef struct opst_router_loss_options {
  uint32_t struct_size;
  float coefficient;
  opst_router_values values;  // of the importance loss only
  uint32_t reserved;
  const opst_view* is_padding;  // [T] u8 or bool; NULL = none
} opst_router_loss_options;

#define OPST_ROUTER_LOSS_OPTIONS_DEFAULT                                   \
  {                                                                        \
    .struct_size = sizeof(opst_router_loss_options), .coefficient = 1e-3f, \
    .values = OPST_SOFTMAX_LOGITS, .reserved = 0, .is_padding = NULL       \
  }

// logits [T, E] f32; d_logits += d_loss * gradient.
OPST_API opst_status opst_router_z_loss(const opst_context* context, const opst_view* logits,
                                        const opst_router_loss_options* options, double* loss);
OPST_API opst_status opst_router_z_loss_backward(const opst_context* context,
                                                 const opst_view* logits,
                                                 const opst_router_loss_options* options,
                                                 double d_loss, const opst_view* d_logits);

// values [T, E] f32; d_values += d_loss * gradient.
OPST_API opst_status opst_importance_loss(const opst_context* context, const opst_view* values,
                                          const opst_router_loss_options* options, double* loss);
OPST_API opst_status opst_importance_loss_backward(const opst_context* context,
                                                   const opst_view* values,
                                                   const opst_router_loss_options* options,
                                                   double d_loss, const opst_view* d_values);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_LOSS_H_
