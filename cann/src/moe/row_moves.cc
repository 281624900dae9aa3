// Row by row, in blocks over the workers; every row of a result has one writer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/moe/row_moves.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "ops/permute/row_blocks.h"

namespace opst::cann {
namespace {

using Row = std::vector<float>;

void Load(ConstTensorView matrix, int64_t index, Row& row) {
  ConvertToFloat(matrix.dtype(), matrix.row(index), row.size(), row.data());
}

void Add(ConstTensorView matrix, int64_t index, Row& scratch, Row& sum) {
  Load(matrix, index, scratch);
  AddTo(scratch.data(), scratch.size(), sum.data());
}

}  // namespace

void SumRows(const Context& context, ConstTensorView rows, const RowUse& use,
             const SumOptions& options, TensorView out) {
  const auto width = static_cast<size_t>(out.dim(1));
  if (width == 0) return;
  const auto sum_token = [&](int64_t token, Row& sum, Row& row, Row& scratch) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    if (options.residual.rank() > 0) Add(options.residual, token, scratch, sum);
    if (options.second_residual.rank() > 0) Add(options.second_residual, token, scratch, sum);
    for (int64_t j = 0; j < use.k; ++j) {
      const auto entry = static_cast<size_t>(token * use.k + j);
      const float weight = use.weight(entry);
      if (use.rows[entry] < 0) continue;
      if (weight == 0 && options.zero_weight == ZeroWeight::kSkips) continue;
      Load(rows, use.rows[entry], row);
      if (use.bias.rank() > 0) Add(use.bias, use.bias_rows[entry], scratch, row);
      ScaledAccumulate(weight, row.data(), width, sum.data());
    }
    ConvertFromFloat(sum.data(), width, out.dtype(), out.mutable_row(token));
  };
  ForRowBlocks(context, out.dim(0), kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    Row sum(width), row(width), scratch(width);
    for (int64_t token = begin; token < end; ++token) sum_token(token, sum, row, scratch);
  });
}

void SpreadRows(const Context& context, ConstTensorView d_out, const RowUse& use, UnusedRows unused,
                TensorView d_rows) {
  const auto width = static_cast<size_t>(d_rows.dim(1));
  if (width == 0) return;
  std::vector<int64_t> entry_of_row(static_cast<size_t>(d_rows.dim(0)), -1);
  for (size_t entry = 0; entry < use.rows.size(); ++entry) {
    if (use.rows[entry] < 0) continue;
    int64_t& owner = entry_of_row[static_cast<size_t>(use.rows[entry])];
    OPST_CHECK_ARG(owner < 0, "cann", "no row may be used twice", "row ", use.rows[entry],
                   " at positions ", owner, " and ", entry);
    owner = static_cast<int64_t>(entry);
  }
  ForRowBlocks(context, d_rows.dim(0), kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    Row token(width), row(width);
    for (int64_t index = begin; index < end; ++index) {
      const int64_t entry = entry_of_row[static_cast<size_t>(index)];
      if (entry < 0 && unused == UnusedRows::kStay) continue;
      std::fill(row.begin(), row.end(), 0.0f);
      if (entry >= 0) {
        Load(d_out, use.token(static_cast<size_t>(entry)), token);
        ScaledAccumulate(use.weight(static_cast<size_t>(entry)), token.data(), width, row.data());
      }
      ConvertFromFloat(row.data(), width, d_rows.dtype(), d_rows.mutable_row(index));
    }
  });
}

std::vector<float> DotRows(const Context& context, ConstTensorView rows, const RowUse& use,
                           ConstTensorView d_out) {
  const auto width = static_cast<size_t>(d_out.dim(1));
  std::vector<float> dots(use.rows.size(), 0.0f);
  const auto num_entries = static_cast<int64_t>(use.rows.size());
  ForRowBlocks(context, num_entries, kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    Row gradient(width), row(width), scratch(width);
    for (auto entry = static_cast<size_t>(begin); entry < static_cast<size_t>(end); ++entry) {
      Load(d_out, use.token(entry), gradient);
      std::fill(row.begin(), row.end(), 0.0f);
      if (use.rows[entry] >= 0) Load(rows, use.rows[entry], row);
      if (use.bias.rank() > 0) Add(use.bias, use.bias_rows[entry], scratch, row);
      dots[entry] = Dot(row.data(), gradient.data(), width);
    }
  });
  return dots;
}

}  // namespace opst::cann
