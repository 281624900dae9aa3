// How CANN's kernels turn rows of floats into int8: each chain of roundings as they have it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_MOE_QUANTIZE_H_
#define OPST_CANN_MOE_QUANTIZE_H_

#include <cstdint>
#include <span>

namespace opst::cann {

// q = int8(f16(f16(x) · f16(scale)) + f16(offset)): f16 arithmetic, then to nearest even,
// saturated; NaN becomes 0.
void QuantizeStatic(std::span<const float> x, float scale, float offset, int8_t* q);

// s = max|v| / 127, q = int8(f16(v / s)): towards zero to f16, then half away from zero. Returns s.
// CANN divides 0 by 0 for a row of zeros: here q and s are 0. A row with NaN or infinity has q = 0
// and s = NaN.
float QuantizeDynamic(std::span<const float> v, int8_t* q);

// How a product is quantised on its way to int8 (grouped_matmul_swiglu_quant): times 1/s, to f16,
// to int8, all to nearest even. Returns s; rows without a scale as above.
float QuantizeProduct(std::span<const float> v, int8_t* q);

// As dispatch does it: f = 127 / max|v|, q = round(v · f) to nearest even. Returns 1/f.
float QuantizeForDispatch(std::span<const float> v, int8_t* q);

}  // namespace opst::cann

#endif  // OPST_CANN_MOE_QUANTIZE_H_
