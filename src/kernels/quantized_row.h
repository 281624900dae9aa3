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

// Stands where the floats of the block stood.
struct QuantizedRow {
  int16_t values[kBlockK];           // x ≈ scale · value; 0 behind the last input
  float scales[kMaxGroupsPerBlock];  // of each group
  int32_t sums[kMaxGroupsPerBlock];  // Σ values of each group
};
static_assert(sizeof(QuantizedRow) <= kBlockK * sizeof(float));

// Rounds the first `k` floats of a block to integers of at most `largest` (32767 or 127) in
// magnitude, with the scale max|x| / largest of each group of `group`, in place. |error| ≤ scale
// / 2. A group with a NaN or an infinity has the scale NaN, so that its products are NaN; one whose
// maximum is below 1e-30 is 0.
//   row  kBlockK floats
void QuantizeRow(float* row, size_t k, size_t group, float largest) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_QUANTIZED_ROW_H_
