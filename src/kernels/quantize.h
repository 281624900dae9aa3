// Kernels that turn rows of floats into int8. No shapes, no threads; block formats of files are in
// tensor/.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_QUANTIZE_H_
#define OPST_KERNELS_QUANTIZE_H_

#include <cstddef>
#include <cstdint>

namespace opst {

// max |x[i]|, 0 for n = 0; NaN if any x[i] is NaN.
float MaxAbs(const float* x, size_t n) noexcept;

// q[i] = x[i] · scale + offset, rounded to nearest even and saturated at -128 and 127; NaN gives 0.
// Product and sum are rounded once together, on SSE2 apart. No overlap.
void ToInt8(const float* x, size_t n, float scale, float offset, int8_t* q) noexcept;

// codes[i] = x[i] · inverse, rounded to nearest even and held within least … most, |bounds| ≤ 127.
// Returns Σ (x[i] - scale · codes[i])². n is a multiple of 4. The same bits on every instruction
// set, so that a packed file does not depend on the machine that wrote it.
float RoundToCodes(const float* x, size_t n, float scale, float inverse, float least, float most,
                   int8_t* codes) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_QUANTIZE_H_
