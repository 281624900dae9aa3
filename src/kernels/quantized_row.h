// One block of an activation row as integers with a scale per group: the left operand of the
// integer tiles.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_QUANTIZED_ROW_H_
#define OPST_KERNELS_QUANTIZED_ROW_H_

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_tile.h"

namespace opst {

constexpr size_t kMaxGroupsPerBlock = kBlockK / 32;
constexpr float kLargestInt16 = 32767;
constexpr float kLargestInt8 = 127;

// Stands where the floats of the block stood.
template <typename Integer>
struct QuantizedRow {
  Integer values[kBlockK];           // x ≈ scale · value; 0 behind the last input
  float scales[kMaxGroupsPerBlock];  // of each group
  int32_t sums[kMaxGroupsPerBlock];  // Σ values of each group
};
using Int16Row = QuantizedRow<int16_t>;  // inputs in their order
using Int8Row = QuantizedRow<int8_t>;    // inputs in the order of a lane's bytes (integer_panels.h)
static_assert(sizeof(Int16Row) <= kBlockK * sizeof(float));

// Rounds the first `k` floats of a block to integers of at most `largest` in magnitude, with the
// scale max|x| / largest of each group of `group`, in place. |error| ≤ scale / 2. A group with a
// NaN or an infinity has the scale NaN, so that its products are NaN; one whose maximum is below
// 1e-30 is 0.
//   row      kBlockK floats; becomes an Int16Row
//   largest  kLargestInt16 or kLargestInt8
void QuantizeToInt16(float* row, size_t k, size_t group, float largest) noexcept;

// The same integers as with kLargestInt8, as an Int8Row for panels of `format`.
void QuantizeToInt8(float* row, size_t k, size_t group, WeightFormat format) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_QUANTIZED_ROW_H_
