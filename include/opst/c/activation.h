// The activation functions of feed-forward experts; the functions only, no operator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_ACTIVATION_H_
#define OPST_C_ACTIVATION_H_

#include <stdint.h>

// Formulas and accuracy: opst/ops/activation.h.
typedef int32_t opst_activation;
enum {
  OPST_SILU = 0,
  OPST_GELU_TANH = 1,
  OPST_RELU = 2,
  OPST_CLAMPED_SWIGLU = 3,  // with alpha and limit; gated experts only
  OPST_GELU = 4,
  OPST_QUICK_GELU = 5
};

#endif  // OPST_C_ACTIVATION_H_
