// Grouped product and the weighted sum of a token's rows in one: blocks of output columns, each
// walking all rows in order.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/config.h"
#include "base/scratch_pool.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "ops/grouped_matmul/expert_tasks.h"
#include "ops/grouped_matmul/fused_input.h"
#include "ops/permute/row_blocks.h"
#include "ops/permute/row_indices.h"
#include "opst/ops/grouped_matmul_fused.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "grouped_matmul_finalize";

struct FinalizeRequest {
  const FusedInput& input;
  const GroupedMatmulFinalizeOptions& options;
  std::span<const int32_t> targets;  // [R]
  TensorView sums;                   // [T,N] f32
};

void CheckRequest(const FusedInput& input, const GroupedMatmulFinalizeOptions& options,
                  TensorView out) {
  CheckFusedInput(kOp, input);
  const PanelLayout& layout = input.weights.layout();
  OPST_CHECK_ARG(layout.order == PanelOrder::kPlain, kOp, "weights must be in plain panels",
                 input.weights.ToString());
  OPST_CHECK_ARG(out.rank() == 2 && out.dim(1) == layout.out && IsModelFloat(out.dtype()), kOp,
                 "output must be [T,N] f32, bf16 or f16 of the weights' N", out.ToString(),
                 " for weights ", input.weights.ToString());
  const Shape rows{input.x.dim(0)};
  OPST_CHECK_ARG(options.row_indices.shape() == rows, kOp,
                 "row_indices must name a place for every row", options.row_indices.ToString(),
                 " for ", input.x.ToString());
  const ConstTensorView& weights = options.row_weights;
  OPST_CHECK_ARG(weights.rank() == 0 || (weights.shape() == rows &&
                                         weights.dtype() == DType::kF32 && weights.is_contiguous()),
                 kOp, "row_weights must be contiguous [R] f32, or absent", weights.ToString());
  const ConstTensorView& bias = options.bias;
  OPST_CHECK_ARG(
      bias.rank() == 0 || (bias.shape() == Shape{input.weights.num_experts(), layout.out} &&
                           bias.dtype() == DType::kF32 && !out.Overlaps(bias)),
      kOp, "bias must be [E,N] f32 apart from the output, or absent", bias.ToString());
  const ConstTensorView& shared = options.shared;
  const bool fits = shared.rank() == 2 && shared.dim(1) == layout.out &&
                    IsModelFloat(shared.dtype()) && options.first_shared_row >= 0 &&
                    shared.dim(0) <= out.dim(0) &&
                    options.first_shared_row <= out.dim(0) - shared.dim(0);
  OPST_CHECK_ARG(shared.rank() == 0 || fits, kOp,
                 "shared must be [S,N] f32, bf16 or f16 that ends inside the output, or absent",
                 shared.ToString(), " from row ", options.first_shared_row, " of ", out.ToString());
  OPST_CHECK_ARG(std::isfinite(options.shared_weight), kOp, "shared_weight must be finite",
                 options.shared_weight);
  OPST_CHECK_ARG(!out.Overlaps(input.x) && (shared.rank() == 0 || !out.Overlaps(shared)), kOp,
                 "output must not overlap the inputs", out.ToString());
}

// What the sums start with: the output or 0, and the shared rows.
void StartSums(const Context& context, const FinalizeRequest& request, TensorView out) {
  const GroupedMatmulFinalizeOptions& options = request.options;
  const auto width = static_cast<size_t>(out.dim(1));
  const int64_t num_shared = options.shared.rank() == 0 ? 0 : options.shared.dim(0);
  ForRowBlocks(context, out.dim(0), kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      auto* sum = reinterpret_cast<float*>(request.sums.mutable_row(row));
      const bool is_in_place = request.sums.row(row) == out.row(row);
      if (options.output_mode == OutputMode::kOverwrite) {
        std::fill_n(sum, width, 0.0f);
      } else if (!is_in_place) {
        ConvertToFloat(out.dtype(), out.row(row), width, sum);
      }
      const int64_t from = row - options.first_shared_row;
      if (from < 0 || from >= num_shared) continue;
      std::vector<float> shared(width);
      ConvertToFloat(options.shared.dtype(), options.shared.row(from), width, shared.data());
      ScaledAccumulate(options.shared_weight, shared.data(), width, sum);
    }
  });
}

// Adds some rows of one group to their columns of the sums.
void AddRows(const FinalizeRequest& request, const ExpertTask& task, const PanelProduct& product,
             const TaskScratch& scratch) {
  const FusedInput& input = request.input;
  const PanelLayout& layout = input.weights.layout();
  const auto group = static_cast<size_t>(task.expert);
  const int64_t first_row = input.group_offsets[group] + task.first_row;
  const int64_t expert = input.expert(group);
  MultiplyTask(
      product, layout, task, input.weights.expert(expert), InputRows(product, input.x),
      [&](int64_t row) { return input.group_offsets[group] + row; }, scratch);
  const int64_t first_column = task.first_panel * PanelLayout::kWidth;
  const auto columns = static_cast<size_t>(
      std::min(layout.out - first_column, task.num_panels * PanelLayout::kWidth));
  const ConstTensorView& bias = request.options.bias;
  const ConstTensorView& weights = request.options.row_weights;
  for (int64_t row = 0; row < task.num_rows; ++row) {
    const int64_t source = first_row + row;
    const int32_t target = request.targets[static_cast<size_t>(source)];
    if (target < 0) continue;
    float* c = scratch.c + static_cast<size_t>(row) * kTaskColumns;
    if (input.x_scales.rank() > 0) {
      const float scale = input.scale(source);
      for (size_t column = 0; column < columns; ++column) c[column] *= scale;
    }
    if (bias.rank() > 0) {
      AddTo(reinterpret_cast<const float*>(bias.row(expert)) + first_column, columns, c);
    }
    ScaledAccumulate(weights.rank() == 0 ? 1.0f : weights.as<float>()[source], c, columns,
                     reinterpret_cast<float*>(request.sums.mutable_row(target)) + first_column);
  }
}

// Panels of one task: wide ones gather a row less often, narrow ones leave every worker enough.
int64_t PanelsPerTask(int64_t num_panels, int num_workers) {
  auto panels = static_cast<int64_t>(kPanelsPerTask);
  while (panels > 2 && num_panels < panels * 4 * num_workers) panels /= 2;
  return panels;
}

void AddProducts(const Context& context, const FinalizeRequest& request) {
  const FusedInput& input = request.input;
  const PanelLayout& layout = input.weights.layout();
  const PanelProduct product(
      layout, ActivationFormatOf(context.config(), input.x.dim(0), input.num_groups()));
  const auto inner = static_cast<size_t>(layout.in);
  const size_t scratch_floats = TaskScratchFloats(inner);
  const ScratchPool::Lease arena = context.scratch().Borrow();
  float* memory = arena->Take<float>(scratch_floats * static_cast<size_t>(context.num_threads()));
  const int64_t num_panels = layout.num_panels();
  const int64_t width = PanelsPerTask(num_panels, context.num_threads());
  const auto num_tasks = static_cast<size_t>((num_panels + width - 1) / width);
  context.pool().ParallelFor(num_tasks, [&](size_t block, int worker) {
    const TaskScratch scratch =
        SliceTaskScratch(memory + static_cast<size_t>(worker) * scratch_floats, inner);
    const int64_t first_panel = static_cast<int64_t>(block) * width;
    const auto panels = static_cast<int32_t>(std::min(width, num_panels - first_panel));
    constexpr auto kMostRows = static_cast<int64_t>(kRowsPerTask);
    for (size_t group = 0; group < input.num_groups(); ++group) {
      const int64_t rows = input.group_offsets[group + 1] - input.group_offsets[group];
      for (int64_t row = 0; row < rows; row += kMostRows) {
        AddRows(request,
                {static_cast<int32_t>(group), panels, row, std::min(kMostRows, rows - row),
                 first_panel},
                product, scratch);
      }
    }
  });
}

}  // namespace

void GroupedMatmulFinalize(const Context& context, ConstTensorView x,
                           std::span<const int64_t> group_offsets, const PackedWeights& weights,
                           const GroupedMatmulFinalizeOptions& options, TensorView out) {
  const FusedInput input{x, options.x_scales, group_offsets, weights, options.group_experts};
  CheckRequest(input, options, out);
  const auto targets = CheckedRowIndices(kOp, options.row_indices, out.dim(0));
  RequireIsa(context.config().GetChoice("isa"));
  const bool has_own_sums = out.dtype() != DType::kF32;
  const Tensor sums = has_own_sums ? Tensor(DType::kF32, out.shape()) : Tensor();
  const FinalizeRequest request{input, options, targets, has_own_sums ? sums.view() : out};
  StartSums(context, request, out);
  AddProducts(context, request);
  if (!has_own_sums) return;
  ForRowBlocks(context, out.dim(0), kCopiedRowsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      ConvertFromFloat(reinterpret_cast<const float*>(sums.view().row(row)),
                       static_cast<size_t>(out.dim(1)), out.dtype(), out.mutable_row(row));
    }
  });
}

}  // namespace opst
