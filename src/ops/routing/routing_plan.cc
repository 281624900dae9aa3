// Builds a RoutingPlan by counting sort; capacity is decided first, rows are laid out second.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/routing_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "routing_plan";
constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max();
// Article 1's memory advice: above this factor padding costs more than balance is worth.
constexpr double kAdvisedCapacityFactor = 1.5;

void CheckViews(ConstTensorView ids, ConstTensorView weights) {
  OPST_CHECK_ARG(ids.rank() == 2 && ids.dtype() == DType::kI32 && ids.is_contiguous(), kOp,
                 "expert_ids must be contiguous [T,k] i32", ids.ToString());
  OPST_CHECK_ARG(
      weights.dtype() == DType::kF32 && weights.shape() == ids.shape() && weights.is_contiguous(),
      kOp, "expert_weights must be contiguous f32 of the ids' shape", weights.ToString(),
      " for ids ", ids.ToString());
}

void CheckSizes(const Shape& ids, int64_t num_experts, const RoutingPlanOptions& options) {
  OPST_CHECK_ARG(num_experts > 0, kOp, "num_experts must be positive", num_experts);
  OPST_CHECK_ARG(num_experts <= kMaxRows, kOp, "num_experts must be below 2^31", num_experts);
  OPST_CHECK_ARG(ids.num_elements() <= kMaxRows, kOp, "T·k must be below 2^31", "ids ",
                 ids.ToString());
  OPST_CHECK_ARG(options.capacity_factor >= 0 && std::isfinite(options.capacity_factor), kOp,
                 "capacity_factor must be finite and not negative", options.capacity_factor);
  OPST_CHECK_ARG(options.min_capacity >= 0, kOp, "min_capacity must not be negative",
                 options.min_capacity);
  const ExpertRange& active = options.active_experts;
  OPST_CHECK_ARG((active.begin == 0 && active.end == 0) ||
                     (0 <= active.begin && active.begin < active.end && active.end <= num_experts),
                 kOp, Concat("active_experts must be a range within 0..", num_experts),
                 active.begin, " to ", active.end);
  OPST_CHECK_ARG(!options.pads_to_capacity || options.capacity_factor > 0, kOp,
                 "padding needs a capacity_factor above 0", options.capacity_factor);
  const auto num_flags = static_cast<int64_t>(options.is_padding.size());
  OPST_CHECK_ARG(num_flags == 0 || num_flags == ids[0], kOp,
                 "is_padding must have one value per token", num_flags, " for ", ids[0], " tokens");
}

// Checks every id, and leaves weight 0 where there is no row.
void CheckSlots(RoutingPlan& plan) {
  for (size_t slot = 0; slot < plan.expert_ids.size(); ++slot) {
    const int32_t expert = plan.expert_ids[slot];
    if (expert >= 0 && expert < plan.num_experts) continue;
    const auto top_k = static_cast<size_t>(plan.top_k);
    OPST_CHECK_ARG(
        expert == -1, kOp,
        Concat("expert ids must be -1 or 0..", plan.num_experts - 1, " (was the gate normalised?)"),
        "invalid expert index ", expert, " at [", slot / top_k, ",", slot % top_k, "]");
    plan.expert_weights[slot] = 0;
  }
}

// Empties the slots of experts outside the range.
void LeaveActive(const ExpertRange& active, RoutingPlan& plan) {
  if (active.end == 0) return;
  for (size_t slot = 0; slot < plan.expert_ids.size(); ++slot) {
    const int32_t expert = plan.expert_ids[slot];
    if (expert >= active.begin && expert < active.end) continue;
    plan.expert_ids[slot] = -1;
    plan.expert_weights[slot] = 0;
  }
}

void EmptyPadding(std::span<const uint8_t> is_padding, RoutingPlan& plan) {
  for (size_t token = 0; token < is_padding.size(); ++token) {
    if (is_padding[token] == 0) continue;
    const auto slot = static_cast<std::ptrdiff_t>(token) * plan.top_k;
    std::fill_n(plan.expert_ids.begin() + slot, plan.top_k, -1);
    std::fill_n(plan.expert_weights.begin() + slot, plan.top_k, 0.0f);
  }
}

int64_t Capacity(const RoutingPlan& plan, const RoutingPlanOptions& options) {
  const int64_t num_tokens =
      plan.num_tokens - std::count_if(options.is_padding.begin(), options.is_padding.end(),
                                      [](uint8_t is_padding) { return is_padding != 0; });
  const double mean = static_cast<double>(num_tokens) * static_cast<double>(plan.top_k) /
                      static_cast<double>(plan.num_experts);
  // Compared as doubles first: a huge factor must not overflow the integer.
  const double wanted =
      std::min(std::ceil(options.capacity_factor * mean), static_cast<double>(num_tokens));
  return std::min(num_tokens, std::max(options.min_capacity, static_cast<int64_t>(wanted)));
}

// Slots by descending weight, then ascending number; NaN counts as the least.
std::vector<size_t> SlotsByWeight(const std::vector<float>& weights) {
  std::vector<size_t> slots(weights.size());
  std::iota(slots.begin(), slots.end(), size_t{0});
  const auto key = [&](size_t slot) {
    return std::isnan(weights[slot]) ? -std::numeric_limits<float>::infinity() : weights[slot];
  };
  std::stable_sort(slots.begin(), slots.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
  return slots;
}

// Empties the slots of full experts, visiting the slots in the order that is asked for.
void DropOverCapacity(int64_t capacity, DropOrder order, RoutingPlan& plan) {
  std::vector<int64_t> taken(static_cast<size_t>(plan.num_experts), 0);
  const auto visit = [&](size_t slot) {
    const int32_t expert = plan.expert_ids[slot];
    if (expert < 0 || taken[static_cast<size_t>(expert)]++ < capacity) return;
    plan.expert_ids[slot] = -1;
    plan.expert_weights[slot] = 0;
    ++plan.num_dropped;
  };
  switch (order) {
    case DropOrder::kByChoice:
      for (int64_t choice = 0; choice < plan.top_k; ++choice) {
        for (int64_t token = 0; token < plan.num_tokens; ++token) {
          visit(static_cast<size_t>(token * plan.top_k + choice));
        }
      }
      return;
    case DropOrder::kByToken:
      for (size_t slot = 0; slot < plan.expert_ids.size(); ++slot) visit(slot);
      return;
    case DropOrder::kByWeight:
      for (const size_t slot : SlotsByWeight(plan.expert_weights)) visit(slot);
      return;
  }
}

// Counts, offsets and both index maps. padded_rows: rows reserved per expert, 0 = as many as used.
void LayOutRows(int64_t padded_rows, RoutingPlan& plan) {
  const auto num_experts = static_cast<size_t>(plan.num_experts);
  plan.expert_counts.assign(num_experts, 0);
  for (const int32_t expert : plan.expert_ids) {
    if (expert >= 0) ++plan.expert_counts[static_cast<size_t>(expert)];
  }
  plan.expert_offsets.assign(num_experts + 1, 0);
  for (size_t expert = 0; expert < num_experts; ++expert) {
    const int64_t rows = padded_rows > 0 ? padded_rows : plan.expert_counts[expert];
    plan.expert_offsets[expert + 1] = plan.expert_offsets[expert] + rows;
  }
  std::vector<int64_t> next(plan.expert_offsets.begin(), plan.expert_offsets.end() - 1);
  plan.row_to_slot.assign(static_cast<size_t>(plan.expert_offsets.back()), -1);
  plan.slot_to_row.assign(plan.expert_ids.size(), -1);
  for (size_t slot = 0; slot < plan.expert_ids.size(); ++slot) {
    const int32_t expert = plan.expert_ids[slot];
    if (expert < 0) continue;
    const int64_t row = next[static_cast<size_t>(expert)]++;
    plan.row_to_slot[static_cast<size_t>(row)] = static_cast<int32_t>(slot);
    plan.slot_to_row[slot] = static_cast<int32_t>(row);
  }
}

// Finishes a plan that has its shape, ids and weights.
void CompletePlan(const Context& context, const RoutingPlanOptions& options, RoutingPlan& plan) {
  CheckSlots(plan);
  LeaveActive(options.active_experts, plan);
  EmptyPadding(options.is_padding, plan);
  int64_t padded_rows = 0;
  if (options.capacity_factor > 0) {
    if (options.capacity_factor > kAdvisedCapacityFactor) {
      context.log().Write(LogLevel::kInfo, "[routing_plan] capacity_factor ",
                          options.capacity_factor, " is above 1.5; buffers grow with it");
    }
    const int64_t capacity = Capacity(plan, options);
    if (options.pads_to_capacity) padded_rows = capacity;
    OPST_CHECK_ARG(padded_rows == 0 || plan.num_experts <= kMaxRows / padded_rows, kOp,
                   "E·capacity must be below 2^31", plan.num_experts, " experts of ", capacity);
    DropOverCapacity(capacity, options.drop_order, plan);
  }
  LayOutRows(padded_rows, plan);
}

}  // namespace

RoutingPlan BuildRoutingPlan(const Context& context, ConstTensorView expert_ids,
                             ConstTensorView expert_weights, int64_t num_experts,
                             const RoutingPlanOptions& options) {
  CheckViews(expert_ids, expert_weights);
  CheckSizes(expert_ids.shape(), num_experts, options);
  RoutingPlan plan;
  plan.num_tokens = expert_ids.dim(0);
  plan.top_k = expert_ids.dim(1);
  plan.num_experts = num_experts;
  const int64_t num_slots = expert_ids.shape().num_elements();
  plan.expert_ids.assign(expert_ids.as<int32_t>(), expert_ids.as<int32_t>() + num_slots);
  plan.expert_weights.assign(expert_weights.as<float>(), expert_weights.as<float>() + num_slots);
  CompletePlan(context, options, plan);
  return plan;
}

RoutingPlan BuildRoutingPlan(const Context& context, std::vector<int32_t> expert_ids,
                             std::vector<float> expert_weights, int64_t top_k, int64_t num_experts,
                             const RoutingPlanOptions& options) {
  const auto num_slots = static_cast<int64_t>(expert_ids.size());
  OPST_CHECK_ARG(expert_weights.size() == expert_ids.size() && top_k > 0 && num_slots % top_k == 0,
                 kOp, "expert_ids and expert_weights must have T·k values each", num_slots, " and ",
                 expert_weights.size(), " for top_k ", top_k);
  CheckSizes(Shape{num_slots / top_k, top_k}, num_experts, options);
  RoutingPlan plan;
  plan.num_tokens = num_slots / top_k;
  plan.top_k = top_k;
  plan.num_experts = num_experts;
  plan.expert_ids = std::move(expert_ids);
  plan.expert_weights = std::move(expert_weights);
  CompletePlan(context, options, plan);
  return plan;
}

}  // namespace opst
