// Gather and scatter-add of rows by an index list. One implementation each: they move memory.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/sparse_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/rows.h"
#include "ops/permute/row_blocks.h"
#include "ops/permute/row_indices.h"

namespace opst {
namespace {

void CheckScatter(ConstTensorView rows, ConstTensorView indices, ConstTensorView weights,
                  TensorView out) {
  constexpr std::string_view kOp = "sparse_scatter_add";
  OPST_CHECK_ARG(rows.rank() == 2 && IsModelFloat(rows.dtype()), kOp,
                 "rows must be [R,H] f32, bf16 or f16", rows.ToString());
  OPST_CHECK_ARG(
      out.rank() == 2 && out.dim(1) == rows.dim(1) && out.dim(1) > 0 && IsModelFloat(out.dtype()),
      kOp, "output must be [T,H] f32, bf16 or f16 with the rows' H > 0", out.ToString(), " for ",
      rows.ToString());
  OPST_CHECK_ARG(indices.rank() == 1 && indices.dim(0) == rows.dim(0), kOp,
                 "row_indices must name a place for every row", indices.ToString(), " for ",
                 rows.ToString());
  OPST_CHECK_ARG(weights.rank() == 0 || (weights.shape() == indices.shape() &&
                                         weights.dtype() == DType::kF32 && weights.is_contiguous()),
                 kOp, "weights must be contiguous [R] f32, or absent", weights.ToString());
  OPST_CHECK_ARG(!out.Overlaps(rows), kOp, "output must not overlap the rows", out.ToString());
}

}  // namespace

void SparseGather(const Context& context, ConstTensorView x, ConstTensorView row_indices,
                  TensorView out) {
  constexpr std::string_view kOp = "sparse_gather";
  OPST_CHECK_ARG(x.rank() == 2 && x.dim(1) > 0, kOp, "input must be [T,H] with H > 0",
                 x.ToString());
  const auto indices = CheckedRowIndices(kOp, row_indices, x.dim(0));
  const auto num_rows = static_cast<int64_t>(indices.size());
  OPST_CHECK_ARG(out.shape() == (Shape{num_rows, x.dim(1)}) && out.dtype() == x.dtype(), kOp,
                 "output must be [R,H] of the input's dtype", out.ToString(), " for ", num_rows,
                 " rows of ", x.ToString());
  OPST_CHECK_ARG(!out.Overlaps(x), kOp, "output must not overlap the input", out.ToString());
  const size_t row_bytes = static_cast<size_t>(x.dim(1)) * ByteSize(x.dtype());
  ForRowBlocks(context, num_rows, kCopiedRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t source = indices[static_cast<size_t>(row)];
      if (source < 0) {
        std::memset(out.mutable_row(row), 0, row_bytes);
      } else {
        std::memcpy(out.mutable_row(row), x.row(source), row_bytes);
      }
    }
  });
}

void SparseScatterAdd(const Context& context, ConstTensorView rows, ConstTensorView row_indices,
                      ConstTensorView weights, OutputMode mode, TensorView out) {
  CheckScatter(rows, row_indices, weights, out);
  const InverseIndices sources(CheckedRowIndices("sparse_scatter_add", row_indices, out.dim(0)),
                               out.dim(0));
  const auto width = static_cast<size_t>(rows.dim(1));
  const float* weight = weights.rank() > 0 ? weights.as<float>() : nullptr;
  ForRowBlocks(context, out.dim(0), kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> sum(width);
    std::vector<float> row(width);
    for (int64_t target = begin; target < end; ++target) {
      if (mode == OutputMode::kAdd) {
        if (sources.of(target).empty()) continue;
        ConvertToFloat(out.dtype(), out.row(target), width, sum.data());
      } else {
        std::fill(sum.begin(), sum.end(), 0.0f);
      }
      for (const int32_t source : sources.of(target)) {
        ConvertToFloat(rows.dtype(), rows.row(source), width, row.data());
        ScaledAccumulate(weight != nullptr ? weight[source] : 1.0f, row.data(), width, sum.data());
      }
      ConvertFromFloat(sum.data(), width, out.dtype(), out.mutable_row(target));
    }
  });
}

}  // namespace opst
