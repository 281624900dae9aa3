// Values of quantised blocks and narrow floats as f32, one by one and exactly as their formats
// define them; packing and speed are elsewhere.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TENSOR_DEQUANTIZE_H_
#define OPST_TENSOR_DEQUANTIZE_H_

#include <cstddef>
#include <cstdint>

#include "tensor/quant_blocks.h"

namespace opst {

// Expands `num_blocks` blocks standing one after the other, of any alignment, into
// num_blocks · values floats. Every operation is rounded to f32 once, in ggml's order.
void Dequantize(QuantType type, const std::byte* blocks, int64_t num_blocks, float* out);

// FP8 E4M3 without infinities (S.1111.111 = NaN), exactly.
float Fp8E4m3ToFloat(uint8_t bits);
// FP8 E5M2: the upper half of a binary16.
float Fp8E5m2ToFloat(uint8_t bits);
// E8M0: 2^(bits - 127); 255 is NaN.
float E8m0ToFloat(uint8_t bits);

}  // namespace opst

#endif  // OPST_TENSOR_DEQUANTIZE_H_
