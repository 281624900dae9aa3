// Kernels over contiguous runs of floats: conversion between element types, scaled accumulation,
// products and the gated activation of a tile. No shapes, no threads.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_ROWS_H_
#define OPST_KERNELS_ROWS_H_

#include <cstddef>

#include "opst/dtype.h"
#include "opst/ops/activation.h"

namespace opst {

// dst[i] = float(src[i]) for f32, bf16 or f16 sources. Exact. No overlap.
void ConvertToFloat(DType dtype, const void* src, size_t n, float* dst) noexcept;

// dst[i] = src[i] rounded to nearest even; f16 overflows to infinity. No overlap.
void ConvertFromFloat(const float* src, size_t n, DType dtype, void* dst) noexcept;

// y[i] = w · x[i] + y[i], rounded once; on SSE2 product and sum are rounded apart. No overlap.
void ScaledAccumulate(float w, const float* x, size_t n, float* y) noexcept;

// Σ x[i] · y[i] in f32, as many partial sums as a vector has lanes, added in a fixed order: the
// bits depend on n, not on where the rows lie. |error| ≤ (n + 1) · 2⁻²⁴ · Σ|x·y| to first order.
float Dot(const float* x, const float* y, size_t n) noexcept;

// x[i] = act(x[i]), for every activation but kClampedSwiglu.
void ElementActivation(Activation activation, float* x, size_t n) noexcept;

// For one row of a gate_up tile: out[8 p + j] = act(tile[16 p + j]) · tile[16 p + 8 + j], for
// num_panels panels; kClampedSwiglu as its formula says. `out` has 8 · num_panels elements. No
// overlap.
void GatedActivation(Activation activation, const ActivationLimits& limits, const float* tile,
                     size_t num_panels, float* out) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_ROWS_H_
