// Builds a RoutingPlan from a map of tokens x experts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "opst/routing_plan.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "routing_map";

void CheckViews(ConstTensorView map, ConstTensorView weights) {
  const bool is_map =
      map.dtype() == DType::kBool || map.dtype() == DType::kU8 || map.dtype() == DType::kI8;
  OPST_CHECK_ARG(map.rank() == 2 && is_map, kOp, "routing_map must be [T,E] bool, u8 or i8",
                 map.ToString());
  OPST_CHECK_ARG(
      weights.rank() == 0 || (weights.shape() == map.shape() && weights.dtype() == DType::kF32),
      kOp, "weights must be [T,E] f32, or absent", weights.ToString(), " for a map ",
      map.ToString());
}

int64_t LargestRow(ConstTensorView map) {
  int64_t most = 1;
  for (int64_t token = 0; token < map.dim(0); ++token) {
    const std::byte* row = map.row(token);
    most = std::max<int64_t>(most, map.dim(1) - std::count(row, row + map.dim(1), std::byte{0}));
  }
  return most;
}

}  // namespace

RoutingPlan BuildRoutingPlanFromMap(const Context& context, ConstTensorView routing_map,
                                    ConstTensorView weights, const RoutingPlanOptions& options) {
  CheckViews(routing_map, weights);
  const int64_t num_tokens = routing_map.dim(0);
  const int64_t num_experts = routing_map.dim(1);
  const int64_t top_k = LargestRow(routing_map);
  const auto num_slots = static_cast<size_t>(Shape{num_tokens, top_k}.num_elements());
  std::vector<int32_t> ids(num_slots, -1);
  std::vector<float> mixing(num_slots, 0.0f);
  for (int64_t token = 0; token < num_tokens; ++token) {
    const std::byte* row = routing_map.row(token);
    auto slot = static_cast<size_t>(token * top_k);
    for (int64_t expert = 0; expert < num_experts; ++expert) {
      if (row[expert] == std::byte{0}) continue;
      ids[slot] = static_cast<int32_t>(expert);
      mixing[slot] =
          weights.rank() == 0 ? 1.0f : reinterpret_cast<const float*>(weights.row(token))[expert];
      ++slot;
    }
  }
  return BuildRoutingPlan(context, std::move(ids), std::move(mixing), top_k, num_experts, options);
}

}  // namespace opst
