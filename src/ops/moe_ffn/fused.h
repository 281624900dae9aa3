// The fused two-phase implementation of moe_ffn: its two phases on one chunk of tokens. Checks and
// the choice of implementation are in moe_ffn.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_MOE_FFN_FUSED_H_
#define OPST_OPS_MOE_FFN_FUSED_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/grouped_matmul/expert_tasks.h"
#include "ops/grouped_matmul/panel_product.h"
#include "ops/moe_ffn/chunk.h"
#include "ops/requests.h"

namespace opst {

// Sizes that the phases share, decided once per call.
struct FusedShape {
  FusedShape(const Context& context, const MoeFfnRequest& request);

  size_t hidden;          // H
  size_t input_floats;    // of a rounded row of x, 0 if none is
  size_t ffn_blocks;      // K-blocks of the activations
  size_t ffn_floats;      // floats of one activation row, whole blocks
  int64_t column_panels;  // panels of one column block of the down projection
  size_t column_floats;   // its columns
  ActivationFormat activations;
  size_t worker_floats;  // scratch of one worker, without the output block
  // Floats per token of a chunk: its rounded row, the activations of its k rows and, per worker,
  // its output block.
  size_t token_floats(int64_t top_k, int num_workers) const;
};

// One chunk of tokens. Activations of expert e are BlockedRows from `activations` on, at
// row_starts[e]·ffn_floats.
class FusedChunk {
 public:
  FusedChunk(const MoeFfnRequest& request, const FusedShape& shape, const PlanChunk& chunk,
             int64_t rows_per_task, float* activations);

  // Before phase 1: rounds the rows of x, where products take integers.
  //   memory  input_floats of the shape for each token
  void RoundInputs(const Context& context, float* memory) {
    inputs_.Round(context, chunk_.first_token, chunk_.num_tokens, memory);
  }

  size_t num_up_tasks() const { return up_tasks_.size(); }
  size_t num_down_tasks() const;

  // Phase 1, one task: act(gate)·up, or act(up), of some rows and columns of one expert.
  void RunUp(size_t task, float* worker_scratch) const;

  // Phase 2, one task: a block of output columns, all experts in ascending order.
  //   out_block  [num_tokens, column_floats]
  void RunDown(size_t task, float* worker_scratch, float* out_block) const;

 private:
  BlockedRows Activations(size_t expert) const;
  void AddUpBias(const ExpertTask& task, float* c) const;
  void AddExpert(size_t expert, int64_t first_panel, size_t num_panels, const TaskScratch& scratch,
                 float* out_block) const;
  void LoadOutput(size_t first_column, size_t columns, float* out_block) const;
  void StoreOutput(size_t first_column, size_t columns, const float* out_block) const;

  const MoeFfnRequest& request_;
  const FusedShape& shape_;
  const PlanChunk& chunk_;
  PanelProduct up_product_;
  PanelProduct down_product_;
  InputRows inputs_;
  int64_t panel_activations_;  // that one panel of gate_up makes
  std::vector<ExpertTask> up_tasks_;
  float* activations_;
};

}  // namespace opst

#endif  // OPST_OPS_MOE_FFN_FUSED_H_
