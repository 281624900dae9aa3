// Checks a grouped matmul, chooses the implementation and runs its tasks over the workers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/grouped_matmul.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/scratch_pool.h"
#include "base/thread_pool.h"
#include "kernels/rows.h"
#include "ops/grouped_matmul/expert_tasks.h"
#include "ops/implementation.h"
#include "ops/ref/reference.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "grouped_matmul";

void CheckOffsets(std::span<const int64_t> offsets, int64_t num_groups, int64_t num_rows) {
  OPST_CHECK_ARG(static_cast<int64_t>(offsets.size()) == num_groups + 1, kOp,
                 "group_offsets must have E+1 values", offsets.size(), " for ", num_groups,
                 " matrices");
  OPST_CHECK_ARG(offsets.front() == 0 && offsets.back() == num_rows, kOp,
                 "group_offsets must begin with 0 and end with the number of rows", offsets.front(),
                 " and ", offsets.back(), " for ", num_rows, " rows");
  for (size_t group = 1; group < offsets.size(); ++group) {
    OPST_CHECK_ARG(offsets[group - 1] <= offsets[group], kOp, "group_offsets must ascend",
                   offsets[group - 1], " before ", offsets[group], " at [", group, "]");
  }
}

void CheckRequest(const GroupedMatmulRequest& request) {
  const ConstTensorView& x = request.x;
  const PanelLayout& layout = request.weights->layout();
  const TensorView& out = request.out;
  OPST_CHECK_ARG(x.rank() == 2 && IsModelFloat(x.dtype()), kOp,
                 "input must be [R,K] f32, bf16 or f16", x.ToString());
  OPST_CHECK_ARG(out.rank() == 2 && IsModelFloat(out.dtype()), kOp,
                 "output must be [R,N] f32, bf16 or f16", out.ToString());
  OPST_CHECK_ARG(layout.order == PanelOrder::kPlain, kOp, "weights must be in plain panels",
                 request.weights->ToString());
  OPST_CHECK_ARG(layout.in == x.dim(1), kOp, "weights dim 2 must equal input dim 1 (K)", "weights ",
                 request.weights->ToString(), ", input ", x.ToString());
  OPST_CHECK_ARG(out.dim(0) == x.dim(0) && out.dim(1) == layout.out, kOp,
                 "output must be [R,N] of input and weights", "output ", out.ToString(), ", input ",
                 x.ToString(), ", weights ", request.weights->ToString());
  OPST_CHECK_ARG(!out.Overlaps(x), kOp, "output must not overlap the input", out.ToString());
  CheckOffsets(request.group_offsets, request.weights->num_experts(), x.dim(0));
  for (int64_t group = 0; group < request.weights->num_experts(); ++group) {
    const auto index = static_cast<size_t>(group);
    const int64_t rows = request.group_offsets[index + 1] - request.group_offsets[index];
    OPST_CHECK_ARG(rows == 0 || request.weights->has(group), kOp,
                   "matrices that have rows must have weights", "none for group ", group, " with ",
                   rows, " rows");
  }
}

void GroupedMatmulTiled(const Context& context, const GroupedMatmulRequest& request) {
  const PackedWeights& weights = *request.weights;
  const PanelLayout& layout = weights.layout();
  const auto offsets = request.group_offsets;
  std::vector<int64_t> counts(offsets.size() - 1);
  for (size_t group = 0; group < counts.size(); ++group) {
    counts[group] = offsets[group + 1] - offsets[group];
  }
  const std::vector<ExpertTask> tasks =
      MakeExpertTasks(counts, layout.num_panels(), context.config().GetInt("expert_batch_size"));
  const PanelProduct product(layout);
  const size_t scratch_floats = TaskScratchFloats(static_cast<size_t>(layout.in));
  const auto num_workers = static_cast<size_t>(context.num_threads());
  const ScratchPool::Lease arena = context.scratch().Borrow();
  float* scratch_memory = arena->Take<float>(scratch_floats * num_workers);
  const auto run_task = [&](size_t index, int worker) {
    const ExpertTask& task = tasks[index];
    const int64_t first_row = offsets[static_cast<size_t>(task.expert)];
    const TaskScratch scratch =
        SliceTaskScratch(scratch_memory + static_cast<size_t>(worker) * scratch_floats,
                         static_cast<size_t>(layout.in));
    MultiplyTask(
        product, layout, task, weights.expert(task.expert), request.x,
        [&](int64_t row) { return first_row + row; }, scratch);
    const int64_t first_column = task.first_panel * PanelLayout::kWidth;
    const int64_t columns =
        std::min(layout.out - first_column, task.num_panels * PanelLayout::kWidth);
    const DType dtype = request.out.dtype();
    for (int64_t row = 0; row < task.num_rows; ++row) {
      std::byte* out = request.out.mutable_row(first_row + task.first_row + row) +
                       static_cast<size_t>(first_column) * ByteSize(dtype);
      ConvertFromFloat(scratch.c + static_cast<size_t>(row) * kTaskColumns,
                       static_cast<size_t>(columns), dtype, out);
    }
  };
  context.pool().ParallelFor(tasks.size(), run_task);
}

constexpr Implementation<GroupedMatmulRequest> kImplementations[] = {
    {"tiled",
     [](const Context& context, const GroupedMatmulRequest&) {
       return DeclineIfReferenceForced(context);
     },
     GroupedMatmulTiled},
    {"reference", TakesAll<GroupedMatmulRequest>, ref::GroupedMatmul},
};

}  // namespace

void GroupedMatmul(const Context& context, ConstTensorView x,
                   std::span<const int64_t> group_offsets, const PackedWeights& weights,
                   TensorView out) {
  const GroupedMatmulRequest request{x, group_offsets, &weights, out};
  CheckRequest(request);
  Dispatch<GroupedMatmulRequest>(context, kOp, kImplementations, request);
}

void Matmul(const Context& context, ConstTensorView x, const PackedWeights& weights,
            TensorView out) {
  const std::array<int64_t, 2> offsets{0, x.rank() == 2 ? x.dim(0) : 0};
  GroupedMatmul(context, x, offsets, weights, out);
}

}  // namespace opst
