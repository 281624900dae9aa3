// Checks a grouped matmul, chooses the implementation and runs its tasks over the workers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/grouped_matmul.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/scratch_pool.h"
#include "base/thread_pool.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "ops/grouped_matmul/expert_tasks.h"
#include "ops/grouped_matmul/group_offsets.h"
#include "ops/implementation.h"
#include "ops/ref/reference.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "grouped_matmul";

void CheckOptions(const GroupedMatmulRequest& request) {
  const PackedWeights& weights = *request.weights;
  const ConstTensorView& bias = request.options->bias;
  OPST_CHECK_ARG(
      bias.rank() == 0 || (bias.shape() == Shape{weights.num_experts(), weights.layout().out} &&
                           bias.dtype() == DType::kF32 && !request.out.Overlaps(bias)),
      kOp, "bias must be [E,N] f32 apart from the output, or absent", bias.ToString(),
      " for weights ", weights.ToString());
  OPST_CHECK_ARG(request.options->activation != Activation::kClampedSwiglu, kOp,
                 "the activation must be one without a gate", "clamped SwiGLU");
  const auto experts = request.options->group_experts;
  for (size_t group = 0; group < experts.size(); ++group) {
    OPST_CHECK_ARG(experts[group] >= 0 && experts[group] < weights.num_experts(), kOp,
                   Concat("group_experts must be 0..", weights.num_experts() - 1),
                   "invalid expert index ", experts[group], " at [", group, "]");
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
  CheckOptions(request);
  const auto experts = request.options->group_experts;
  CheckGroupOffsets(
      kOp, request.group_offsets,
      experts.empty() ? request.weights->num_experts() : static_cast<int64_t>(experts.size()),
      x.dim(0));
  for (int64_t group = 0; group < request.num_groups(); ++group) {
    const auto index = static_cast<size_t>(group);
    const int64_t rows = request.group_offsets[index + 1] - request.group_offsets[index];
    OPST_CHECK_ARG(rows == 0 || request.weights->has(request.expert(group)), kOp,
                   "matrices that have rows must have weights", "none for group ", group, " with ",
                   rows, " rows");
  }
}

// Adds bias and former output to a task's C and rounds it into place.
void StoreTask(const GroupedMatmulRequest& request, const ExpertTask& task, int64_t first_row,
               const TaskScratch& scratch) {
  const PanelLayout& layout = request.weights->layout();
  const int64_t first_column = task.first_panel * PanelLayout::kWidth;
  const auto columns = static_cast<size_t>(
      std::min(layout.out - first_column, task.num_panels * PanelLayout::kWidth));
  const DType dtype = request.out.dtype();
  const float* bias = request.bias(task.expert);
  std::array<float, kTaskColumns> before;
  for (int64_t row = 0; row < task.num_rows; ++row) {
    float* c = scratch.c + static_cast<size_t>(row) * kTaskColumns;
    std::byte* out = request.out.mutable_row(first_row + task.first_row + row) +
                     static_cast<size_t>(first_column) * ByteSize(dtype);
    if (bias != nullptr) AddTo(bias + first_column, columns, c);
    const auto& activation = request.options->activation;
    if (activation) ElementActivation(*activation, c, columns);
    if (request.options->output_mode == OutputMode::kAdd) {
      ConvertToFloat(dtype, out, columns, before.data());
      AddTo(before.data(), columns, c);
    }
    ConvertFromFloat(c, columns, dtype, out);
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
  const PanelProduct product(layout,
                             ActivationFormatOf(context.config(), request.x.dim(0), counts.size()));
  const size_t scratch_floats = TaskScratchFloats(static_cast<size_t>(layout.in));
  const auto num_workers = static_cast<size_t>(context.num_threads());
  const ScratchPool::Lease arena = context.scratch().Borrow();
  float* scratch_memory = arena->Take<float>(scratch_floats * num_workers);
  InputRows rows(product, request.x);
  const size_t rounded_floats =
      InputRows::RoundedFloats(product, static_cast<size_t>(layout.in), request.x.dim(0));
  const bool are_shared = layout.num_panels() > static_cast<int64_t>(kPanelsPerTask);
  if (are_shared &&
      rounded_floats * sizeof(float) <= context.config().GetBytes("stage1_buffer_size")) {
    rows.Round(context, 0, request.x.dim(0), arena->Take<float>(rounded_floats));
  }
  const auto run_task = [&](size_t index, int worker) {
    const ExpertTask& task = tasks[index];
    const int64_t first_row = offsets[static_cast<size_t>(task.expert)];
    const TaskScratch scratch =
        SliceTaskScratch(scratch_memory + static_cast<size_t>(worker) * scratch_floats,
                         static_cast<size_t>(layout.in));
    MultiplyTask(
        product, layout, task, weights.expert(request.expert(task.expert)), rows,
        [&](int64_t row) { return first_row + row; }, scratch);
    StoreTask(request, task, first_row, scratch);
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
                   const GroupedMatmulOptions& options, TensorView out) {
  const GroupedMatmulRequest request{x, group_offsets, &weights, &options, out};
  CheckRequest(request);
  Dispatch<GroupedMatmulRequest>(context, kOp, kImplementations, request);
}

void GroupedMatmul(const Context& context, ConstTensorView x,
                   std::span<const int64_t> group_offsets, const PackedWeights& weights,
                   TensorView out) {
  GroupedMatmul(context, x, group_offsets, weights, {}, out);
}

void Matmul(const Context& context, ConstTensorView x, const PackedWeights& weights,
            TensorView out) {
  const std::array<int64_t, 2> offsets{0, x.rank() == 2 ? x.dim(0) : 0};
  GroupedMatmul(context, x, offsets, weights, out);
}

}  // namespace opst
