// Rows of tokens into expert order, as they are or as int8.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/moe/init_routing_rows.h"

#include <algorithm>

#include "cann/src/moe/quantize.h"
#include "kernels/rows.h"
#include "ops/permute/row_blocks.h"
#include "opst/ops/sparse_rows.h"

namespace opst::cann {
namespace {

// Calls quantize(row of floats, row number, q) for all rows; padding rows become zero.
template <typename Quantize>
void ForQuantizedRows(const Run& run, Index x, const ExpandedRows& rows, Index out,
                      const Quantize& quantize) {
  const auto width = static_cast<size_t>(run[x].dim(1));
  const ConstTensorView source = run.In(x, run[x].dim(0), run[x].dim(1));
  int8_t* const target = run.Span<int8_t>(out).data();
  ForRowBlocks(run.context(), rows.num_rows(), kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> row(width);
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (rows.tokens[i] < 0) {
        std::fill_n(target + i * width, width, int8_t{0});
      } else {
        ConvertToFloat(source.dtype(), source.row(rows.tokens[i]), width, row.data());
        quantize(row, i, target + i * width);
      }
    }
  });
}

}  // namespace

void GatherRows(const Run& run, Index x, const ExpandedRows& rows, Index out) {
  const int64_t width = run[x].dim(1);
  if (rows.num_rows() == 0 || width == 0) return;
  const ConstTensorView source = run.In(x, run[x].dim(0), width);
  SparseGather(run.context(), source, ConstTensorView(rows.tokens.data(), Shape{rows.num_rows()}),
               TensorView(run.data(out), source.dtype(), Shape{rows.num_rows(), width}));
}

void GatherStatic(const Run& run, Index x, const ExpandedRows& rows, float scale, float offset,
                  Index out) {
  ForQuantizedRows(run, x, rows, out, [&](const std::vector<float>& row, size_t, int8_t* q) {
    QuantizeStatic(row, scale, offset, q);
  });
}

void GatherDynamic(const Run& run, Index x, const ExpandedRows& rows, Index smooth,
                   SmoothRows smooth_rows, int64_t first_expert, Index out, Index out_scales) {
  const auto width = static_cast<size_t>(run[x].dim(1));
  const std::vector<float> factors =
      smooth_rows == SmoothRows::kNone ? std::vector<float>{} : run.Floats(smooth);
  const auto scales = run.Span<float>(out_scales);
  std::fill_n(scales.begin(), rows.num_rows(), 0.0f);  // what padding rows keep
  ForQuantizedRows(run, x, rows, out, [&](std::vector<float>& row, size_t i, int8_t* q) {
    if (smooth_rows != SmoothRows::kNone) {
      const int64_t expert = rows.experts[i] - first_expert;
      const size_t first =
          smooth_rows == SmoothRows::kShared ? 0 : static_cast<size_t>(expert) * width;
      for (size_t h = 0; h < width; ++h) row[h] *= factors[first + h];
    }
    scales[i] = QuantizeDynamic(row, q);
  });
}

}  // namespace opst::cann
