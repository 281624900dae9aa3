// Makes the list of tasks, slices scratch memory and gathers input rows.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_matmul/expert_tasks.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/thread_pool.h"
#include "kernels/rows.h"

namespace opst {
namespace {

size_t GatherFloats(size_t k) {
  // Few rows are gathered over all of K, many rows one block at a time.
  return std::max(kRowsPerTask * kBlockK, kMaxTileRows * NumBlocks(k) * kBlockK);
}

}  // namespace

std::vector<ExpertTask> MakeExpertTasks(std::span<const int64_t> row_counts, int64_t num_panels,
                                        int64_t rows_per_task, int64_t panels_per_task) {
  constexpr auto kMaxRows = static_cast<int64_t>(kRowsPerTask);
  const int64_t limit = rows_per_task > 0 ? std::min(rows_per_task, kMaxRows) : kMaxRows;
  std::vector<int32_t> experts(row_counts.size());
  std::iota(experts.begin(), experts.end(), 0);
  const auto rows_of = [&](int32_t expert) { return row_counts[static_cast<size_t>(expert)]; };
  std::stable_sort(experts.begin(), experts.end(),
                   [&](int32_t a, int32_t b) { return rows_of(a) > rows_of(b); });
  std::vector<ExpertTask> tasks;
  for (const int32_t expert : experts) {
    const int64_t rows = rows_of(expert);
    if (rows == 0) break;  // sorted: only empty experts follow
    const int64_t parts = (rows + limit - 1) / limit;
    for (int64_t panel = 0; panel < num_panels; panel += panels_per_task) {
      const auto panels = static_cast<int32_t>(std::min(panels_per_task, num_panels - panel));
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = rows * part / parts;
        const int64_t end = rows * (part + 1) / parts;
        tasks.push_back({expert, panels, begin, end - begin, panel});
      }
    }
  }
  return tasks;
}

size_t TaskScratchFloats(size_t k) {
  return GatherFloats(k) + kRowsPerTask * kTaskColumns + PanelProduct::kScratchFloats;
}

TaskScratch SliceTaskScratch(float* memory, size_t k) {
  float* c = memory + GatherFloats(k);
  return {memory, c, c + kRowsPerTask * kTaskColumns};
}

void GatherBias(const PanelLayout& layout, const ExpertTask& task, const float* bias, float* tile) {
  for (int64_t panel = 0; panel < task.num_panels; ++panel) {
    for (int64_t lane = 0; lane < PanelLayout::kWidth; ++lane) {
      const int64_t row = layout.SourceRow(task.first_panel + panel, lane);
      tile[panel * PanelLayout::kWidth + lane] = row < 0 ? 0 : bias[row];
    }
  }
}

size_t InputRows::RoundedFloats(const PanelProduct& product, size_t k, int64_t num_rows) {
  if (!product.quantizes()) return 0;
  return static_cast<size_t>(num_rows) * NumBlocks(k) * product.row_bytes() / sizeof(float);
}

void InputRows::Round(const Context& context, int64_t first_row, int64_t num_rows, float* memory) {
  if (!product_.quantizes()) return;
  constexpr int64_t kRowsPerRound = 16;
  const size_t num_blocks = NumBlocks(static_cast<size_t>(x_.dim(1)));
  first_row_ = first_row;
  auto* out = reinterpret_cast<std::byte*>(memory);
  const auto num_tasks = static_cast<size_t>((num_rows + kRowsPerRound - 1) / kRowsPerRound);
  context.pool().ParallelFor(num_tasks, [&](size_t task, int) {
    const int64_t begin = static_cast<int64_t>(task) * kRowsPerRound;
    alignas(64) float row_block[kBlockK];
    for (int64_t row = begin; row < std::min(begin + kRowsPerRound, num_rows); ++row) {
      for (size_t block = 0; block < num_blocks; ++block) {
        Gather(first_row + row, block, row_block);
        std::memcpy(out + (static_cast<size_t>(row) * num_blocks + block) * product_.row_bytes(),
                    row_block, product_.row_bytes());
      }
    }
  });
  rounded_ = out;
}

void InputRows::CopyBlock(int64_t row, size_t block, float* out) const {
  if (rounded_ == nullptr) return Gather(row, block, out);
  const size_t num_blocks = NumBlocks(static_cast<size_t>(x_.dim(1)));
  const size_t place = static_cast<size_t>(row - first_row_) * num_blocks + block;
  std::memcpy(out, rounded_ + place * product_.row_bytes(), product_.row_bytes());
}

void InputRows::Gather(int64_t row, size_t block, float* out) const {
  const size_t length = BlockLength(static_cast<size_t>(x_.dim(1)), block);
  const std::byte* source = x_.row(row) + block * kBlockK * ByteSize(x_.dtype());
  if (x_.dtype() == DType::kI8) {
    std::copy_n(reinterpret_cast<const int8_t*>(source), length, out);
  } else {
    ConvertToFloat(x_.dtype(), source, length, out);
  }
  if (length % 2 != 0) out[length] = 0;
  product_.PrepareRow(out, length);
}

}  // namespace opst
