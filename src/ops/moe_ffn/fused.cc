// The two phases of the fused MoE layer. Data flow of one chunk of tokens:
//   x rows --gather--> A blocks x gate/up panels -> C tile -> act(gate)*up -> activations
//   activations x down panels -> C tile --weight--> output block of one worker -> out
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_ffn/fused.h"

#include <algorithm>

#include "kernels/norm.h"
#include "kernels/rows.h"

namespace opst {
namespace {

// Columns of the down projection per task. Wide blocks read the activations less often (H/256 times
// at 256), narrow ones leave every worker enough tasks; below 32 the tile itself is cut.
int64_t ColumnPanels(int64_t num_panels, int num_workers) {
  for (const int64_t panels : {16, 8, 4}) {
    if (num_panels >= panels * 4 * num_workers) return panels;
  }
  return 2;
}

}  // namespace

FusedShape::FusedShape(const Context& context, const MoeFfnRequest& request)
    : hidden(static_cast<size_t>(request.x.dim(1))),
      activations(ActivationFormatOf(context.config(),
                                     request.plan->num_tokens * request.plan->top_k,
                                     request.plan->expert_counts.size())) {
  const PanelLayout& down = request.experts->down.layout();
  ffn_blocks = NumBlocks(static_cast<size_t>(down.in));
  ffn_floats = ffn_blocks * kBlockK;
  column_panels = ColumnPanels(down.num_panels(), context.num_threads());
  column_floats = static_cast<size_t>(column_panels) * kPanelWidth;
  worker_floats = TaskScratchFloats(hidden);
  const PanelProduct up(request.experts->gate_up.layout(), activations);
  input_floats = InputRows::RoundedFloats(up, hidden, 1);
}

size_t FusedShape::token_floats(int64_t top_k, int num_workers) const {
  return input_floats + static_cast<size_t>(top_k) * ffn_floats +
         static_cast<size_t>(num_workers) * column_floats;
}

FusedChunk::FusedChunk(const MoeFfnRequest& request, const FusedShape& shape,
                       const PlanChunk& chunk, int64_t rows_per_task, float* activations)
    : request_(request),
      shape_(shape),
      chunk_(chunk),
      up_product_(request.experts->gate_up.layout(), shape.activations),
      down_product_(request.experts->down.layout(), shape.activations),
      inputs_(up_product_, request.x),
      panel_activations_(request.experts->has_gate() ? PanelLayout::kPairWidth
                                                     : PanelLayout::kWidth),
      up_tasks_(MakeExpertTasks(chunk.row_counts, request.experts->gate_up.layout().num_panels(),
                                rows_per_task, static_cast<int64_t>(kBlockK) / panel_activations_)),
      activations_(activations) {}

size_t FusedChunk::num_down_tasks() const {
  const int64_t panels = request_.experts->down.layout().num_panels();
  return static_cast<size_t>((panels + shape_.column_panels - 1) / shape_.column_panels);
}

BlockedRows FusedChunk::Activations(size_t expert) const {
  const auto rows = static_cast<size_t>(chunk_.row_counts[expert]);
  float* data = activations_ + static_cast<size_t>(chunk_.row_starts[expert]) * shape_.ffn_floats;
  return {data, rows * kBlockK, rows};
}

// The biases of a task's panels, in the order of its tile, added to each row of `c`.
void FusedChunk::AddUpBias(const ExpertTask& task, float* c) const {
  float tile[kTaskColumns];
  GatherBias(request_.experts->gate_up.layout(), task,
             reinterpret_cast<const float*>(request_.experts->gate_up_bias.row(task.expert)), tile);
  const auto columns = static_cast<size_t>(task.num_panels) * kPanelWidth;
  for (int64_t row = 0; row < task.num_rows; ++row) {
    AddTo(tile, columns, c + static_cast<size_t>(row) * kTaskColumns);
  }
}

void FusedChunk::RunUp(size_t index, float* worker_scratch) const {
  const ExpertTask& task = up_tasks_[index];
  const PackedWeights& weights = request_.experts->gate_up;
  const TaskScratch scratch = SliceTaskScratch(worker_scratch, shape_.hidden);
  MultiplyTask(
      up_product_, weights.layout(), task, weights.expert(task.expert), inputs_,
      [&](int64_t row) { return chunk_.token(task.expert, row); }, scratch);
  if (request_.experts->gate_up_bias.rank() > 0) AddUpBias(task, scratch.c);
  static_assert(kPanelsPerTask * PanelLayout::kPairWidth == kBlockK,
                "a task's activations are one block of them");
  const BlockedRows activations = Activations(static_cast<size_t>(task.expert));
  const auto column = static_cast<size_t>(task.first_panel * panel_activations_);
  float* out = const_cast<float*>(activations.data) + column / kBlockK * activations.block_stride +
               column % kBlockK;
  // bf16 panels read the activation behind an odd F; padding columns of a row with infinities are
  // NaN, so it is cleared.
  const auto ffn = static_cast<size_t>(request_.experts->down.layout().in);
  const auto columns = static_cast<size_t>(task.num_panels * panel_activations_);
  const bool clears_pad = ffn % 2 != 0 && column + columns > ffn;
  for (int64_t row = 0; row < task.num_rows; ++row) {
    float* activated = out + static_cast<size_t>(task.first_row + row) * kBlockK;
    const float* products = scratch.c + static_cast<size_t>(row) * kTaskColumns;
    if (request_.experts->has_gate()) {
      GatedActivation(request_.options->activation, request_.options->limits, products,
                      static_cast<size_t>(task.num_panels), activated);
    } else {
      std::copy_n(products, columns, activated);
      ElementActivation(request_.options->activation, activated, columns);
    }
    if (clears_pad) activated[ffn - column] = 0;
    down_product_.PrepareRow(activated, std::min(columns, ffn - column));
  }
}

void FusedChunk::RunDown(size_t index, float* worker_scratch, float* out_block) const {
  const PanelLayout& layout = request_.experts->down.layout();
  const int64_t first_panel = static_cast<int64_t>(index) * shape_.column_panels;
  const int64_t num_panels = std::min(shape_.column_panels, layout.num_panels() - first_panel);
  const auto first_column = static_cast<size_t>(first_panel) * kPanelWidth;
  const size_t columns =
      std::min(static_cast<size_t>(num_panels) * kPanelWidth, shape_.hidden - first_column);
  const TaskScratch scratch = SliceTaskScratch(worker_scratch, shape_.hidden);
  LoadOutput(first_column, columns, out_block);
  for (size_t expert = 0; expert < chunk_.row_counts.size(); ++expert) {
    if (chunk_.row_counts[expert] > 0) {
      AddExpert(expert, first_panel, static_cast<size_t>(num_panels), scratch, out_block);
    }
  }
  StoreOutput(first_column, columns, out_block);
}

// out_block[token] += weight · (activations of the expert x its down columns), at most
// kRowsPerTask rows at a time.
void FusedChunk::AddExpert(size_t expert, int64_t first_panel, size_t num_panels,
                           const TaskScratch& scratch, float* out_block) const {
  const PackedWeights& weights = request_.experts->down;
  const std::byte* panels = weights.expert(static_cast<int64_t>(expert)) +
                            static_cast<size_t>(first_panel) * weights.layout().panel_bytes();
  const auto columns = std::min(num_panels * kPanelWidth,
                                shape_.hidden - static_cast<size_t>(first_panel) * kPanelWidth);
  const float* bias = nullptr;
  if (request_.experts->down_bias.rank() > 0) {
    const std::byte* row = request_.experts->down_bias.row(static_cast<int64_t>(expert));
    bias = reinterpret_cast<const float*>(row) + first_panel * PanelLayout::kWidth;
  }
  const BlockedRows all = Activations(expert);
  const size_t parts = (all.num_rows + kRowsPerTask - 1) / kRowsPerTask;
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = all.num_rows * part / parts;
    const size_t rows = all.num_rows * (part + 1) / parts - begin;
    std::fill_n(scratch.c, rows * shape_.column_floats, 0.0f);
    down_product_.Multiply({all.data + begin * kBlockK, all.block_stride, rows}, panels, num_panels,
                           scratch.c, shape_.column_floats, scratch.product);
    for (size_t row = 0; row < rows; ++row) {
      if (bias != nullptr) AddTo(bias, columns, scratch.c + row * shape_.column_floats);
      const auto id = static_cast<int32_t>(expert);
      const auto plan_row = static_cast<int64_t>(begin + row);
      const auto token = static_cast<size_t>(chunk_.token(id, plan_row) - chunk_.first_token);
      ScaledAccumulate(chunk_.weight(id, plan_row), scratch.c + row * shape_.column_floats,
                       num_panels * kPanelWidth, out_block + token * shape_.column_floats);
    }
  }
}

void FusedChunk::LoadOutput(size_t first_column, size_t columns, float* out_block) const {
  const auto num_tokens = static_cast<size_t>(chunk_.num_tokens);
  std::fill_n(out_block, num_tokens * shape_.column_floats, 0.0f);
  if (request_.options->output_mode == OutputMode::kOverwrite) return;
  const size_t offset = first_column * ByteSize(request_.out.dtype());
  for (size_t token = 0; token < num_tokens; ++token) {
    ConvertToFloat(request_.out.dtype(),
                   request_.out.row(chunk_.first_token + static_cast<int64_t>(token)) + offset,
                   columns, out_block + token * shape_.column_floats);
  }
}

void FusedChunk::StoreOutput(size_t first_column, size_t columns, const float* out_block) const {
  const size_t offset = first_column * ByteSize(request_.out.dtype());
  for (size_t token = 0; token < static_cast<size_t>(chunk_.num_tokens); ++token) {
    std::byte* out =
        request_.out.mutable_row(chunk_.first_token + static_cast<int64_t>(token)) + offset;
    ConvertFromFloat(out_block + token * shape_.column_floats, columns, request_.out.dtype(), out);
  }
}

}  // namespace opst
