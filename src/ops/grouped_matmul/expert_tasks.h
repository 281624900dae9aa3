// The first phase that grouped_matmul and moe_ffn share: tasks of (expert, rows, panels), each
// gathered, multiplied and handed to an epilogue. No operator is defined here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GROUPED_MATMUL_EXPERT_TASKS_H_
#define OPST_OPS_GROUPED_MATMUL_EXPERT_TASKS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/grouped_matmul/panel_product.h"
#include "opst/context.h"
#include "opst/tensor.h"

namespace opst {

// Rows of one expert that a task covers at most: A's block (128 KB) and C (256 KB) of a task share
// a 512 KB L2.
constexpr size_t kRowsPerTask = 128;
// 32 panels = 512 columns: copying a row into the task costs 1/512 of multiplying it.
constexpr size_t kPanelsPerTask = 32;
constexpr size_t kTaskColumns = kPanelsPerTask * kPanelWidth;

struct ExpertTask {
  int32_t expert;
  int32_t num_panels;
  int64_t first_row;  // within the expert's rows
  int64_t num_rows;
  int64_t first_panel;
};

// Tasks for `row_counts[e]` rows per expert, hottest expert first so that the long ones do not come
// last; every expert's rows are split evenly.
//   rows_per_task    0 = kRowsPerTask
//   panels_per_task  at most kPanelsPerTask
std::vector<ExpertTask> MakeExpertTasks(std::span<const int64_t> row_counts, int64_t num_panels,
                                        int64_t rows_per_task,
                                        int64_t panels_per_task = kPanelsPerTask);

// Scratch of one worker: A in blocks, C, and the product's own.
struct TaskScratch {
  float* a;
  float* c;
  float* product;
};
// Floats of scratch per worker for products of K inputs.
size_t TaskScratchFloats(size_t k);
TaskScratch SliceTaskScratch(float* memory, size_t k);

// The bias of a task's columns in the order of its tile, 0 where a panel is padded.
//   bias  one value for each row of the matrix
//   tile  kPanelWidth floats for each of the task's panels
void GatherBias(const PanelLayout& layout, const ExpertTask& task, const float* bias, float* tile);

// Rows of x, of floats or int8, as a product takes them. A row is rounded to integers for every
// task that reads it, or once, into memory of the caller: at 512 columns a task and 8 bits rounding
// costs a quarter of the products.
class InputRows {
 public:
  InputRows(const PanelProduct& product, ConstTensorView x) : product_(product), x_(x) {}

  // Floats of memory for `num_rows` rounded rows of K inputs; 0 for products that take floats.
  static size_t RoundedFloats(const PanelProduct& product, size_t k, int64_t num_rows);
  // Rounds rows [first_row, first_row + num_rows); they are the only ones that CopyBlock may ask
  // for. `memory` must outlive this.
  void Round(const Context& context, int64_t first_row, int64_t num_rows, float* memory);

  // Writes a block of inputs of a row where a tile reads it: kBlockK floats, or their integers. A
  // zero stands behind an odd number of floats (bf16 panels read input pairs).
  void CopyBlock(int64_t row, size_t block, float* out) const;

 private:
  void Gather(int64_t row, size_t block, float* out) const;

  const PanelProduct& product_;
  ConstTensorView x_;
  int64_t first_row_ = 0;
  std::byte* rounded_ = nullptr;  // [num_rows, blocks, row_bytes]
};

// Computes C = A·panels for one task. source_row(row within the expert) = row of x.
// The result stands in scratch.c with kTaskColumns floats a row.
template <typename SourceRow>
void MultiplyTask(const PanelProduct& product, const PanelLayout& layout, const ExpertTask& task,
                  const std::byte* matrix, const InputRows& rows, SourceRow source_row,
                  const TaskScratch& scratch) {
  const auto num_rows = static_cast<size_t>(task.num_rows);
  const auto k = static_cast<size_t>(layout.in);
  const auto num_panels = static_cast<size_t>(task.num_panels);
  const std::byte* panels = matrix + static_cast<size_t>(task.first_panel) * layout.panel_bytes();
  const auto gather = [&](size_t block, float* out) {
    for (size_t row = 0; row < num_rows; ++row) {
      rows.CopyBlock(source_row(task.first_row + static_cast<int64_t>(row)), block,
                     out + row * kBlockK);
    }
  };
  std::fill_n(scratch.c, num_rows * kTaskColumns, 0.0f);
  if (num_rows <= product.max_tile_rows()) {
    const BlockedRows a{scratch.a, num_rows * kBlockK, num_rows};
    for (size_t block = 0; block < NumBlocks(k); ++block) {
      gather(block, scratch.a + block * a.block_stride);
    }
    product.Multiply(a, panels, num_panels, scratch.c, kTaskColumns, scratch.product);
    return;
  }
  for (size_t block = 0; block < NumBlocks(k); ++block) {
    gather(block, scratch.a);
    product.MultiplyBlock(scratch.a, num_rows, block, panels, num_panels, scratch.c, kTaskColumns,
                          scratch.product);
  }
}

}  // namespace opst

#endif  // OPST_OPS_GROUPED_MATMUL_EXPERT_TASKS_H_
