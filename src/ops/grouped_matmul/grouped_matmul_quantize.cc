// Grouped product, activation and int8 in one: parts of rows, each in two phases.
//   x rows x gate/up panels -> C tile -> act(gate)*up -> part [rows, F]; then rows -> int8
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/config.h"
#include "base/scratch_pool.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "ops/grouped_matmul/expert_tasks.h"
#include "ops/grouped_matmul/fused_input.h"
#include "ops/permute/dynamic_int8.h"
#include "ops/permute/row_blocks.h"
#include "opst/ops/grouped_matmul_fused.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "grouped_matmul_quantize";

bool HasGate(const PackedWeights& weights) { return weights.layout().order == PanelOrder::kGateUp; }

int64_t FfnOf(const PackedWeights& weights) {
  return HasGate(weights) ? weights.layout().out / 2 : weights.layout().out;
}

void CheckRequest(const FusedInput& input, const GroupedMatmulQuantizeOptions& options,
                  const QuantizedRows& out) {
  CheckFusedInput(kOp, input);
  const PackedWeights& weights = input.weights;
  const int64_t ffn = FfnOf(weights);
  OPST_CHECK_ARG(HasGate(weights) || options.activation != Activation::kClampedSwiglu, kOp,
                 "clamped SwiGLU must have a gate", weights.ToString());
  const ConstTensorView& bias = options.bias;
  OPST_CHECK_ARG(
      bias.rank() == 0 || (bias.shape() == Shape{weights.num_experts(), weights.layout().out} &&
                           bias.dtype() == DType::kF32),
      kOp, "bias must be [E,2F] (no gate: [E,F]) f32, or absent", bias.ToString(), " for weights ",
      weights.ToString());
  const ConstTensorView& smooth = options.smooth;
  OPST_CHECK_ARG(smooth.rank() == 0 ||
                     (smooth.rank() == 2 && smooth.dim(1) == ffn && smooth.dtype() == DType::kF32 &&
                      (smooth.dim(0) == 1 || smooth.dim(0) == weights.num_experts())),
                 kOp, "smooth must be [E,F] or [1,F] f32, or absent", smooth.ToString(),
                 " for weights ", weights.ToString());
  const Shape wanted{input.x.dim(0), ffn};
  OPST_CHECK_ARG(out.values.shape() == wanted && out.values.dtype() == DType::kI8, kOp,
                 "values must be [R,F] i8", out.values.ToString(), " for ", wanted.ToString());
  OPST_CHECK_ARG(out.scales.shape() == Shape{wanted[0]} && out.scales.dtype() == DType::kF32 &&
                     out.scales.is_contiguous(),
                 kOp, "scales must be contiguous [R] f32", out.scales.ToString(), " for ",
                 wanted.ToString());
  OPST_CHECK_ARG(!out.values.Overlaps(input.x) && !out.scales.Overlaps(input.x), kOp,
                 "outputs must not overlap the input", out.values.ToString());
}

// Rows [begin, end) of the input; `part` takes their activations, `width` floats a row.
class QuantizedPart {
 public:
  QuantizedPart(const FusedInput& input, const GroupedMatmulQuantizeOptions& options, int64_t begin,
                int64_t end, float* part)
      : input_(input), options_(options), begin_(begin), part_(part) {
    const auto inside = [&](int64_t row) { return std::clamp(row, begin, end); };
    for (size_t group = 0; group < input.num_groups(); ++group) {
      const int64_t first = inside(input.group_offsets[group]);
      first_rows_.push_back(first);
      counts_.push_back(inside(input.group_offsets[group + 1]) - first);
    }
  }

  // Floats of a row of activations: whole panels.
  static size_t Width(const PackedWeights& weights) {
    return static_cast<size_t>(weights.layout().num_panels() * PanelActivations(weights));
  }

  std::vector<ExpertTask> Tasks(int64_t rows_per_task) const {
    return MakeExpertTasks(counts_, input_.weights.layout().num_panels(), rows_per_task);
  }

  // `task.expert` is a group.
  void Activate(const PanelProduct& product, const ExpertTask& task,
                const TaskScratch& scratch) const {
    const PackedWeights& weights = input_.weights;
    const auto group = static_cast<size_t>(task.expert);
    const int64_t first_row = first_rows_[group];
    MultiplyTask(
        product, weights.layout(), task, weights.expert(input_.expert(group)),
        InputRows(product, input_.x), [&](int64_t row) { return first_row + row; }, scratch);
    float bias[kTaskColumns] = {};
    const bool has_bias = options_.bias.rank() > 0;
    if (has_bias) {
      GatherBias(weights.layout(), task,
                 reinterpret_cast<const float*>(options_.bias.row(input_.expert(group))), bias);
    }
    const auto columns = static_cast<size_t>(task.num_panels) * kPanelWidth;
    for (int64_t row = 0; row < task.num_rows; ++row) {
      float* c = scratch.c + static_cast<size_t>(row) * kTaskColumns;
      const int64_t source = first_row + task.first_row + row;
      if (input_.x_scales.rank() > 0) {
        const float scale = input_.scale(source);
        for (size_t column = 0; column < columns; ++column) c[column] *= scale;
      }
      if (has_bias) AddTo(bias, columns, c);
      float* out = Row(source) + task.first_panel * PanelActivations(weights);
      if (HasGate(weights)) {
        GatedActivation(options_.activation, options_.limits, c,
                        static_cast<size_t>(task.num_panels), out);
      } else {
        std::copy_n(c, columns, out);
        ElementActivation(options_.activation, out, columns);
      }
    }
  }

  void Quantize(const Context& context, const QuantizedRows& out) const {
    const auto ffn = static_cast<size_t>(FfnOf(input_.weights));
    for (size_t group = 0; group < counts_.size(); ++group) {
      const float* smooth = nullptr;
      if (options_.smooth.rank() > 0) {
        const int64_t row = options_.smooth.dim(0) == 1 ? 0 : input_.expert(group);
        smooth = reinterpret_cast<const float*>(options_.smooth.row(row));
      }
      ForRowBlocks(context, counts_[group], kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
        for (int64_t row = first_rows_[group] + begin; row < first_rows_[group] + end; ++row) {
          float* values = Row(row);
          for (size_t f = 0; smooth != nullptr && f < ffn; ++f) values[f] *= smooth[f];
          out.scales.mutable_as<float>()[row] =
              QuantizeDynamic(values, ffn, reinterpret_cast<int8_t*>(out.values.mutable_row(row)));
        }
      });
    }
  }

 private:
  // Activations that one panel makes.
  static int64_t PanelActivations(const PackedWeights& weights) {
    return HasGate(weights) ? PanelLayout::kPairWidth : PanelLayout::kWidth;
  }
  float* Row(int64_t row) const {
    return part_ + static_cast<size_t>(row - begin_) * Width(input_.weights);
  }

  const FusedInput& input_;
  const GroupedMatmulQuantizeOptions& options_;
  int64_t begin_;
  float* part_;
  std::vector<int64_t> first_rows_;  // of each group, in this part
  std::vector<int64_t> counts_;
};

}  // namespace

void GroupedMatmulQuantize(const Context& context, ConstTensorView x,
                           std::span<const int64_t> group_offsets, const PackedWeights& weights,
                           const GroupedMatmulQuantizeOptions& options, const QuantizedRows& out) {
  const FusedInput input{x, options.x_scales, group_offsets, weights, options.group_experts};
  CheckRequest(input, options, out);
  RequireIsa(context.config().GetChoice("isa"));
  const size_t bytes = options.workspace_bytes > 0
                           ? options.workspace_bytes
                           : context.config().GetBytes("stage1_buffer_size");
  const size_t width = QuantizedPart::Width(weights);
  const auto num_rows = static_cast<size_t>(x.dim(0));
  const size_t rows_that_fit = bytes / (std::max<size_t>(width, 1) * sizeof(float));
  const size_t part_rows = std::clamp<size_t>(rows_that_fit, 1, std::max<size_t>(num_rows, 1));
  const auto inner = static_cast<size_t>(weights.layout().in);
  const size_t scratch_floats = TaskScratchFloats(inner);
  const ScratchPool::Lease arena = context.scratch().Borrow();
  float* activations = arena->Take<float>(part_rows * width);
  float* workers = arena->Take<float>(scratch_floats * static_cast<size_t>(context.num_threads()));
  const PanelProduct product(
      weights.layout(), ActivationFormatOf(context.config(), input.x.dim(0), input.num_groups()));
  for (size_t begin = 0; begin < num_rows; begin += part_rows) {
    const QuantizedPart part(input, options, static_cast<int64_t>(begin),
                             static_cast<int64_t>(std::min(begin + part_rows, num_rows)),
                             activations);
    const auto tasks = part.Tasks(context.config().GetInt("expert_batch_size"));
    context.pool().ParallelFor(tasks.size(), [&](size_t task, int worker) {
      float* memory = workers + static_cast<size_t>(worker) * scratch_floats;
      part.Activate(product, tasks[task], SliceTaskScratch(memory, inner));
    });
    part.Quantize(context, out);
  }
}

}  // namespace opst
