// What the fused grouped products check alike: input rows of floats or int8, and groups.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GROUPED_MATMUL_FUSED_INPUT_H_
#define OPST_OPS_GROUPED_MATMUL_FUSED_INPUT_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "opst/packed_weights.h"
#include "opst/tensor.h"

namespace opst {

struct FusedInput {
  ConstTensorView x;                       // [R,K] f32, bf16, f16 or i8
  ConstTensorView x_scales;                // [R] f32, of an int8 x
  std::span<const int64_t> group_offsets;  // [G+1]
  const PackedWeights& weights;
  std::span<const int32_t> group_experts;  // [G] or empty

  size_t num_groups() const { return group_offsets.size() - 1; }
  int64_t expert(size_t group) const {
    return group_experts.empty() ? static_cast<int64_t>(group) : group_experts[group];
  }
  // What row `row` of the product is multiplied with.
  float scale(int64_t row) const { return x_scales.rank() == 0 ? 1 : x_scales.as<float>()[row]; }
};

// Throws kInvalidArgument in the name of `op`.
void CheckFusedInput(std::string_view op, const FusedInput& input);

}  // namespace opst

#endif  // OPST_OPS_GROUPED_MATMUL_FUSED_INPUT_H_
