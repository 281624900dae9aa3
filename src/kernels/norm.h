// Row kernels of the decoder besides the matrix products: norms, rotary embedding, residual add.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_NORM_H_
#define OPST_KERNELS_NORM_H_

#include <cstddef>

namespace opst {

// out[i] = weight[i] · x[i] / √(mean(x²) + eps), sums in f32. In place allowed.
void RmsNorm(const float* x, const float* weight, size_t n, float eps, float* out) noexcept;

// out[i] = weight[i] · (x[i] - mean(x)) / √(variance(x) + eps) + bias[i], sums in f32. In place
// allowed.
void LayerNorm(const float* x, const float* weight, const float* bias, size_t n, float eps,
               float* out) noexcept;

// Rotates the pairs (x[i], x[i + half]) by the angle whose cosine and sine are given:
// x[i] c[i] - x[i+half] s[i], x[i+half] c[i] + x[i] s[i]. In place.
void RotateHalves(float* x, size_t half, const float* cosines, const float* sines) noexcept;

// The same for the pairs (x[2i], x[2i + 1]).
void RotatePairs(float* x, size_t half, const float* cosines, const float* sines) noexcept;

// y[i] += x[i].
void AddTo(const float* x, size_t n, float* y) noexcept;

// x[i] = min(max(x[i], -limit), limit); NaN stays NaN.
void Clamp(float* x, size_t n, float limit) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_NORM_H_
