// The gradient of an activation over one row, gated or not. The forward functions are in rows.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_ACTIVATION_BACKWARD_H_
#define OPST_KERNELS_ACTIVATION_BACKWARD_H_

#include <cstddef>

#include "opst/ops/activation.h"

namespace opst {

// One row of the activation h = f(gate, up) and of its gradient, n elements each. Without a gate
// (`up` null) h = act(gate): any activation but kClampedSwiglu; nothing is written to `d_up`.
struct ActivationRow {
  const float* gate;
  const float* up;
  const float* d_h;
  float* d_gate;  // d_h · ∂f/∂gate; may be `gate`
  float* d_up;    // d_h · ∂f/∂up; may be `up`
  float* h;       // f(gate, up); may be `d_h`
};

// At the edges of kRelu and kClampedSwiglu the gradient is PyTorch's: 0 at relu(0), passed on where
// a value equals its limit. NaN stays NaN.
void ActivationBackward(Activation activation, const ActivationLimits& limits, size_t n,
                        const ActivationRow& row) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_ACTIVATION_BACKWARD_H_
