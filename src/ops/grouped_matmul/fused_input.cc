// Checks rows, scales and groups of the fused grouped products.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_matmul/fused_input.h"

#include "base/check.h"
#include "ops/grouped_matmul/group_offsets.h"

namespace opst {

void CheckFusedInput(std::string_view kOp, const FusedInput& input) {
  const ConstTensorView& x = input.x;
  const PackedWeights& weights = input.weights;
  const bool is_int8 = x.dtype() == DType::kI8;
  OPST_CHECK_ARG(x.rank() == 2 && (IsModelFloat(x.dtype()) || is_int8), kOp,
                 "input must be [R,K] f32, bf16, f16 or i8", x.ToString());
  OPST_CHECK_ARG(is_int8
                     ? input.x_scales.shape() == Shape{x.dim(0)} &&
                           input.x_scales.dtype() == DType::kF32 && input.x_scales.is_contiguous()
                     : input.x_scales.rank() == 0,
                 kOp, "x_scales must be contiguous [R] f32 for an i8 input, else absent",
                 input.x_scales.ToString(), " for ", x.ToString());
  OPST_CHECK_ARG(weights.layout().in == x.dim(1), kOp, "weights dim 2 must equal input dim 1 (K)",
                 "weights ", weights.ToString(), ", input ", x.ToString());
  const auto experts = input.group_experts;
  for (size_t group = 0; group < experts.size(); ++group) {
    OPST_CHECK_ARG(experts[group] >= 0 && experts[group] < weights.num_experts(), kOp,
                   Concat("group_experts must be 0..", weights.num_experts() - 1),
                   "invalid expert index ", experts[group], " at [", group, "]");
  }
  CheckGroupOffsets(kOp, input.group_offsets,
                    experts.empty() ? weights.num_experts() : static_cast<int64_t>(experts.size()),
                    x.dim(0));
  for (size_t group = 0; group < input.num_groups(); ++group) {
    const int64_t rows = input.group_offsets[group + 1] - input.group_offsets[group];
    OPST_CHECK_ARG(rows == 0 || weights.has(input.expert(group)), kOp,
                   "matrices that have rows must have weights", "none for group ", group, " with ",
                   rows, " rows");
  }
}

}  // namespace opst
