// Plain routing, and its comparison with a plan.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plain_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/thread_pool.h"

namespace opst::bench {
namespace {

constexpr int64_t kTokensPerTask = 64;

void RouteRow(const LayerShape& shape, const float* logits, int32_t* ids, float* weights) {
  const auto num_experts = static_cast<size_t>(shape.num_experts);
  const auto top_k = static_cast<size_t>(shape.top_k);
  std::vector<float> scores(logits, logits + num_experts);
  const float max = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - max);
  for (float& score : scores) score /= sum;

  std::vector<int32_t> order(num_experts);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + shape.top_k, order.end(),
                    [&](int32_t a, int32_t b) {
                      const float score_a = scores[static_cast<size_t>(a)];
                      const float score_b = scores[static_cast<size_t>(b)];
                      return score_a > score_b || (score_a == score_b && a < b);
                    });
  float kept = 0;
  for (size_t j = 0; j < top_k; ++j) {
    ids[j] = order[j];
    weights[j] = scores[static_cast<size_t>(order[j])];
    kept += weights[j];
  }
  for (size_t j = 0; shape.renormalizes && j < top_k; ++j) weights[j] /= kept;
}

bool AreNearlyEqual(float a, float b, float tolerance) {
  return std::fabs(a - b) <= tolerance * std::max(1.0f, std::max(std::fabs(a), std::fabs(b)));
}

}  // namespace

PlainRouting RoutePlain(const Context& context, const LayerShape& shape, const float* logits,
                        int64_t num_tokens) {
  PlainRouting routing;
  const auto num_slots = static_cast<size_t>(num_tokens * shape.top_k);
  routing.ids.resize(num_slots);
  routing.weights.resize(num_slots);
  routing.expert_slots.resize(static_cast<size_t>(shape.num_experts));
  const int64_t num_tasks = (num_tokens + kTokensPerTask - 1) / kTokensPerTask;
  context.pool().ParallelFor(static_cast<size_t>(num_tasks), [&](size_t task, int) {
    const int64_t first = static_cast<int64_t>(task) * kTokensPerTask;
    for (int64_t t = first; t < std::min(num_tokens, first + kTokensPerTask); ++t) {
      RouteRow(shape, logits + t * shape.num_experts, routing.ids.data() + t * shape.top_k,
               routing.weights.data() + t * shape.top_k);
    }
  });
  for (size_t slot = 0; slot < num_slots; ++slot) {
    const auto expert = static_cast<size_t>(routing.ids[slot]);
    routing.expert_slots[expert].push_back(static_cast<int32_t>(slot));
  }
  return routing;
}

std::string CompareRouting(const RoutingPlan& plan, const PlainRouting& plain,
                           const float* logits) {
  constexpr float kTolerance = 1e-5f;
  if (plan.expert_ids.size() != plain.ids.size()) return "different numbers of slots";
  bool has_same_ids = true;
  for (size_t slot = 0; slot < plain.ids.size(); ++slot) {
    const auto top_k = static_cast<size_t>(plan.top_k);
    const float* row = logits + slot / top_k * static_cast<size_t>(plan.num_experts);
    if (plan.expert_ids[slot] < 0) return Concat("slot ", slot, " has no expert");
    const int32_t ours = plan.expert_ids[slot];
    if (ours != plain.ids[slot]) {
      has_same_ids = false;
      if (!AreNearlyEqual(row[ours], row[plain.ids[slot]], kTolerance)) {
        return Concat("slot ", slot, ": expert ", ours, " and ", plain.ids[slot]);
      }
    }
    if (!AreNearlyEqual(plan.expert_weights[slot], plain.weights[slot], kTolerance)) {
      return Concat("slot ", slot, ": weight ", plan.expert_weights[slot], " and ",
                    plain.weights[slot]);
    }
  }
  // Where logits tie within rounding, rows may stand elsewhere.
  if (!has_same_ids) return "";
  size_t row = 0;
  for (size_t expert = 0; expert < plain.expert_slots.size(); ++expert) {
    for (const int32_t slot : plain.expert_slots[expert]) {
      if (row >= plan.row_to_slot.size() || plan.row_to_slot[row] != slot) {
        return Concat("row ", row, " of expert ", expert);
      }
      ++row;
    }
  }
  return row == plan.row_to_slot.size() ? "" : "different numbers of rows";
}

}  // namespace opst::bench
