// Where the rows of the later versions of init routing come from, and moving them, quantised or
// not.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_MOE_INIT_ROUTING_ROWS_H_
#define OPST_CANN_MOE_INIT_ROUTING_ROWS_H_

#include <cstdint>
#include <vector>

#include "cann/src/execution/run.h"

namespace opst::cann {

// Each row of expandedX: its token (-1 = a padding row, which becomes zero) and its expert.
struct ExpandedRows {
  std::vector<int32_t> tokens;
  std::vector<int32_t> experts;
  int64_t num_rows() const { return static_cast<int64_t>(tokens.size()); }
};

// out[row] = x[token]; rows of `out` behind them stay.
void GatherRows(const Run& run, Index x, const ExpandedRows& rows, Index out);

// The same as int8, with one scale and offset.
void GatherStatic(const Run& run, Index x, const ExpandedRows& rows, float scale, float offset,
                  Index out);

// Smooth factors of the columns: one row for all experts, or one for each.
enum class SmoothRows : uint8_t { kNone, kShared, kPerExpert };

// The same as int8, a scale a row, which goes to `out_scales`. Row e - first_expert of `smooth` is
// expert e's.
void GatherDynamic(const Run& run, Index x, const ExpandedRows& rows, Index smooth,
                   SmoothRows smooth_rows, int64_t first_expert, Index out, Index out_scales);

}  // namespace opst::cann

#endif  // OPST_CANN_MOE_INIT_ROUTING_ROWS_H_
