// Makes the list of tasks, slices scratch memory and gathers input rows.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_matmul/expert_tasks.h"

#include <algorithm>
#include <numeric>

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

void GatherInputs(ConstTensorView x, int64_t row, size_t first_input, size_t length, float* out) {
  const std::byte* source = x.row(row) + first_input * ByteSize(x.dtype());
  ConvertToFloat(x.dtype(), source, length, out);
  if (length % 2 != 0) out[length] = 0;
}

}  // namespace opst
