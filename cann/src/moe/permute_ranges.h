// What CANN's token_permute family shares: K, ranges of rows, and how many rows are kept.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_MOE_PERMUTE_RANGES_H_
#define OPST_CANN_MOE_PERMUTE_RANGES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"

namespace opst::cann {

constexpr int64_t kMaxPermuteChoices = 512;
constexpr int64_t kMaxPermuteSlots = 16777214;

// Rows [begin, end) in sorted order: positions, not experts.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// K of indices [N,K] or [N]; checks the limits of the sort.
inline int64_t CheckIndices(const Call& call, Index indices, Index tokens) {
  const Operand& operand = call[indices];
  call.Shape(operand.rank() == 1 || operand.rank() == 2, "indices must have 1 or 2 dims",
             operand.Describe());
  call.RankIs(tokens, 2);
  call.Shape(operand.dim(0) == call[tokens].dim(0), "indices and tokens must have the same tokens",
             operand.Describe(), " and ", call[tokens].Describe());
  const int64_t k = operand.rank() == 1 ? 1 : operand.dim(1);
  call.Shape(k >= 1 && k <= kMaxPermuteChoices && operand.num_elements() <= kMaxPermuteSlots,
             "K must be 1 to 512 and N·K below 16777215", operand.Describe());
  return k;
}

// The rows that numOutTokens keeps: 0 all; negative trims from the end as a Python slice does.
inline int64_t KeptRows(int64_t num_out_tokens, int64_t slots) {
  if (num_out_tokens > 0) return std::min(num_out_tokens, slots);
  return std::clamp(slots + num_out_tokens, int64_t{0}, slots);
}

// A token's rows within the range, counted from its begin; those outside become -1.
inline std::vector<int32_t> RowsInRange(const std::vector<int32_t>& sorted, RowRange range) {
  std::vector<int32_t> rows(sorted.size());
  std::transform(sorted.begin(), sorted.end(), rows.begin(), [&](int32_t row) {
    return row >= range.begin && row < range.end ? static_cast<int32_t>(row - range.begin) : -1;
  });
  return rows;
}

}  // namespace opst::cann

#endif  // OPST_CANN_MOE_PERMUTE_RANGES_H_
