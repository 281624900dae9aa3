// The pieces of a softmax over a row that is kept in blocks: maximum, and exponentials with their
// sum. The one-piece softmax of routing is in gating.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_SOFTMAX_H_
#define OPST_KERNELS_SOFTMAX_H_

#include <cstddef>

namespace opst {

// max_i x[i]; -inf for n = 0. NaN may be passed over; ExpInPlace brings it back.
float MaxOf(const float* x, size_t n) noexcept;

// x[i] = e^(x[i] - max) for x[i] ≤ max; returns Σ x[i]. NaN stays NaN.
float ExpInPlace(float* x, size_t n, float max) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_SOFTMAX_H_
