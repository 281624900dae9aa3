// Checks a list of row indices, and turns it round: which entries name a row. No data is moved
// here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_PERMUTE_ROW_INDICES_H_
#define OPST_OPS_PERMUTE_ROW_INDICES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "opst/tensor.h"

namespace opst {

// Throws kInvalidArgument unless `indices` is a contiguous [R] i32 of values -1 … num_rows-1.
std::span<const int32_t> CheckedRowIndices(std::string_view op, ConstTensorView indices,
                                           int64_t num_rows);

// For every row the positions at which `indices` names it, ascending: those of row i are
// positions[offsets[i]] … positions[offsets[i+1]-1].
struct InverseIndices {
  InverseIndices(std::span<const int32_t> indices, int64_t num_rows);

  std::span<const int32_t> of(int64_t row) const {
    const auto begin = static_cast<size_t>(offsets[static_cast<size_t>(row)]);
    const auto end = static_cast<size_t>(offsets[static_cast<size_t>(row) + 1]);
    return std::span<const int32_t>(positions).subspan(begin, end - begin);
  }

  std::vector<int64_t> offsets;    // [num_rows + 1]
  std::vector<int32_t> positions;  // entries that are not -1
};

}  // namespace opst

#endif  // OPST_OPS_PERMUTE_ROW_INDICES_H_
