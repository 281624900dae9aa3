// The gradient of grouped weights: a product whose inner dimension is the rows of a group.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/config.h"
#include "base/scratch_pool.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "kernels/rows.h"
#include "ops/grouped_matmul/group_offsets.h"
#include "ops/grouped_matmul/panel_product.h"
#include "opst/ops/grouped_matmul.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "grouped_matmul_weight_gradient";

// A task's block of the gradient: d_out's columns as rows, x's columns in panels. Both operands are
// laid out anew for every 256 rows of the group, once per task: a copied element of d_out serves
// 512 columns, one of x 64 rows.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kBlockPanels = 32;
constexpr int64_t kBlockColumns = kBlockPanels * PanelLayout::kWidth;

struct Request {
  ConstTensorView x;      // [R,K]
  ConstTensorView d_out;  // [R,N]
  std::span<const int64_t> offsets;
  OutputMode mode;
  TensorView d_weights;  // [G,N,K]
};

void CheckRequest(const Request& request) {
  const ConstTensorView& x = request.x;
  const ConstTensorView& d_out = request.d_out;
  const TensorView& out = request.d_weights;
  OPST_CHECK_ARG(x.rank() == 2 && IsModelFloat(x.dtype()), kOp,
                 "input must be [R,K] f32, bf16 or f16", x.ToString());
  OPST_CHECK_ARG(d_out.rank() == 2 && IsModelFloat(d_out.dtype()) && d_out.dim(0) == x.dim(0), kOp,
                 "d_out must be [R,N] f32, bf16 or f16 of the input's rows", d_out.ToString(),
                 " for ", x.ToString());
  OPST_CHECK_ARG(out.rank() == 3 && out.dtype() == DType::kF32 && out.is_contiguous() &&
                     out.dim(1) == d_out.dim(1) && out.dim(2) == x.dim(1),
                 kOp, "d_weights must be contiguous [G,N,K] f32 of d_out and input", out.ToString(),
                 " for d_out ", d_out.ToString(), ", input ", x.ToString());
  OPST_CHECK_ARG(!out.Overlaps(x) && !out.Overlaps(d_out), kOp,
                 "d_weights must not overlap the arguments", out.ToString());
  CheckGroupOffsets(kOp, request.offsets, out.dim(0), x.dim(0));
}

struct Task {
  int64_t group;
  int64_t first_row;     // of the gradient: column of d_out
  int64_t first_column;  // of the gradient: column of x
};

struct Scratch {
  static constexpr size_t kA = kBlockRows * kBlockK;
  static constexpr size_t kB = kBlockK * kBlockColumns;
  static constexpr size_t kC = kBlockRows * kBlockColumns;
  static constexpr size_t kRow = std::max<size_t>(kBlockRows, kBlockColumns);
  static constexpr size_t kFloats = kA + kB + kC + kRow + PanelProduct::kScratchFloats;

  explicit Scratch(float* memory)
      : a(memory), b(a + kA), c(b + kB), row(c + kC), product(row + kRow) {}

  float* a;        // [kBlockRows, 256] d_out transposed
  float* b;        // [panels, 256, 16] x
  float* c;        // [kBlockRows, kBlockColumns]
  float* row;      // one source row
  float* product;  // the tile's own
};

// One task: all rows of its group, 256 at a time.
class Block {
 public:
  Block(const Request& request, const Task& task, const Scratch& scratch)
      : request_(request),
        task_(task),
        scratch_(scratch),
        rows_(std::min(kBlockRows, request.d_out.dim(1) - task.first_row)),
        columns_(std::min(kBlockColumns, request.x.dim(1) - task.first_column)),
        panels_((columns_ + PanelLayout::kWidth - 1) / PanelLayout::kWidth) {}

  void Run() {
    LoadC();
    const int64_t end = request_.offsets[static_cast<size_t>(task_.group) + 1];
    constexpr auto kMost = static_cast<int64_t>(kBlockK);
    for (int64_t row = request_.offsets[static_cast<size_t>(task_.group)]; row < end;
         row += kMost) {
      const int64_t count = std::min(kMost, end - row);
      FillA(row, count);
      FillB(row, count);
      const PanelLayout layout{WeightFormat::kF32, PanelOrder::kPlain, columns_, count};
      const PanelProduct product(layout);
      product.MultiplyBlock(
          scratch_.a, static_cast<size_t>(rows_), 0, reinterpret_cast<const std::byte*>(scratch_.b),
          static_cast<size_t>(panels_), scratch_.c, kBlockColumns, scratch_.product);
    }
    StoreC();
  }

 private:
  float* Gradient(int64_t row) const {
    const int64_t n = request_.d_weights.dim(1);
    const int64_t k = request_.d_weights.dim(2);
    return request_.d_weights.mutable_as<float>() + (task_.group * n + task_.first_row + row) * k +
           task_.first_column;
  }

  void LoadC() {
    std::fill_n(scratch_.c, Scratch::kC, 0.0f);
    if (request_.mode == OutputMode::kOverwrite) return;
    for (int64_t row = 0; row < rows_; ++row) {
      std::copy_n(Gradient(row), columns_, scratch_.c + row * kBlockColumns);
    }
  }
  void StoreC() {
    for (int64_t row = 0; row < rows_; ++row) {
      std::copy_n(scratch_.c + row * kBlockColumns, columns_, Gradient(row));
    }
  }

  void FillA(int64_t first, int64_t count) {
    const ConstTensorView& d_out = request_.d_out;
    const size_t offset = static_cast<size_t>(task_.first_row) * ByteSize(d_out.dtype());
    for (int64_t k = 0; k < count; ++k) {
      ConvertToFloat(d_out.dtype(), d_out.row(first + k) + offset, static_cast<size_t>(rows_),
                     scratch_.row);
      for (int64_t row = 0; row < rows_; ++row) {
        scratch_.a[row * static_cast<int64_t>(kBlockK) + k] = scratch_.row[row];
      }
    }
  }

  void FillB(int64_t first, int64_t count) {
    const ConstTensorView& x = request_.x;
    const size_t offset = static_cast<size_t>(task_.first_column) * ByteSize(x.dtype());
    std::fill_n(scratch_.row, panels_ * PanelLayout::kWidth, 0.0f);
    for (int64_t k = 0; k < count; ++k) {
      ConvertToFloat(x.dtype(), x.row(first + k) + offset, static_cast<size_t>(columns_),
                     scratch_.row);
      for (int64_t panel = 0; panel < panels_; ++panel) {
        std::copy_n(scratch_.row + panel * PanelLayout::kWidth, PanelLayout::kWidth,
                    scratch_.b + (panel * count + k) * PanelLayout::kWidth);
      }
    }
  }

  const Request& request_;
  const Task& task_;
  const Scratch& scratch_;
  const int64_t rows_;
  const int64_t columns_;
  const int64_t panels_;
};

std::vector<Task> MakeTasks(const Request& request) {
  std::vector<Task> tasks;
  for (int64_t group = 0; group < request.d_weights.dim(0); ++group) {
    for (int64_t row = 0; row < request.d_weights.dim(1); row += kBlockRows) {
      for (int64_t column = 0; column < request.d_weights.dim(2); column += kBlockColumns) {
        tasks.push_back({group, row, column});
      }
    }
  }
  return tasks;
}

}  // namespace

void GroupedMatmulWeightGradient(const Context& context, ConstTensorView x, ConstTensorView d_out,
                                 std::span<const int64_t> group_offsets, OutputMode mode,
                                 TensorView d_weights) {
  const Request request{x, d_out, group_offsets, mode, d_weights};
  CheckRequest(request);
  RequireIsa(context.config().GetChoice("isa"));
  const std::vector<Task> tasks = MakeTasks(request);
  const ScratchPool::Lease arena = context.scratch().Borrow();
  float* memory = arena->Take<float>(Scratch::kFloats * static_cast<size_t>(context.num_threads()));
  context.pool().ParallelFor(tasks.size(), [&](size_t index, int worker) {
    const Scratch scratch(memory + static_cast<size_t>(worker) * Scratch::kFloats);
    Block(request, tasks[index], scratch).Run();
  });
}

}  // namespace opst
