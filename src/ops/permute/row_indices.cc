// Checks a list of row indices and sorts it by row, stably.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/permute/row_indices.h"

#include <limits>

#include "base/check.h"

namespace opst {

std::span<const int32_t> CheckedRowIndices(std::string_view op, ConstTensorView indices,
                                           int64_t num_rows) {
  constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max();
  OPST_CHECK_ARG(indices.rank() == 1 && indices.dtype() == DType::kI32 && indices.is_contiguous(),
                 op, "row_indices must be contiguous [R] i32", indices.ToString());
  OPST_CHECK_ARG(indices.dim(0) <= kMaxRows && num_rows <= kMaxRows, op,
                 "R and T must be below 2^31", indices.ToString(), " for ", num_rows, " rows");
  const std::span<const int32_t> values(indices.as<int32_t>(), static_cast<size_t>(indices.dim(0)));
  for (size_t i = 0; i < values.size(); ++i) {
    OPST_CHECK_ARG(values[i] >= -1 && values[i] < num_rows, op,
                   Concat("row indices must be -1 or 0..", num_rows - 1), "invalid row index ",
                   values[i], " at [", i, "]");
  }
  return values;
}

InverseIndices::InverseIndices(std::span<const int32_t> indices, int64_t num_rows)
    : offsets(static_cast<size_t>(num_rows) + 1, 0) {
  for (const int32_t row : indices) {
    if (row >= 0) ++offsets[static_cast<size_t>(row) + 1];
  }
  for (size_t row = 0; row + 1 < offsets.size(); ++row) offsets[row + 1] += offsets[row];
  positions.resize(static_cast<size_t>(offsets.back()));
  std::vector<int64_t> next(offsets.begin(), offsets.end() - 1);
  for (size_t position = 0; position < indices.size(); ++position) {
    if (indices[position] < 0) continue;
    const int64_t place = next[static_cast<size_t>(indices[position])]++;
    positions[static_cast<size_t>(place)] = static_cast<int32_t>(position);
  }
}

}  // namespace opst
