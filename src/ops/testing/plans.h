// Random routing plans of every kind; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_TESTING_PLANS_H_
#define OPST_OPS_TESTING_PLANS_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "opst/context.h"
#include "opst/routing_plan.h"

namespace opst {

// Ids [T,k] and weights [T,k] as a router would give them: k distinct experts a token.
struct Slots {
  int64_t num_tokens = 0;
  int64_t top_k = 0;
  std::vector<int32_t> ids;
  std::vector<float> weights;

  ConstTensorView id_view() const { return {ids.data(), Shape{num_tokens, top_k}}; }
  ConstTensorView weight_view() const { return {weights.data(), Shape{num_tokens, top_k}}; }
  // Tokens [begin, begin + count) only.
  Slots Slice(int64_t begin, int64_t count) const {
    Slots part{count, top_k, {}, {}};
    const auto first = static_cast<std::ptrdiff_t>(begin * top_k);
    const auto last = static_cast<std::ptrdiff_t>((begin + count) * top_k);
    part.ids.assign(ids.begin() + first, ids.begin() + last);
    part.weights.assign(weights.begin() + first, weights.begin() + last);
    return part;
  }
};

struct SlotOptions {
  double empty_share = 0;  // of the slots: id -1
  double skew = 0;         // 0 = uniform; above, low expert ids are chosen more often
};

inline Slots RandomSlots(int64_t num_tokens, int64_t num_experts, int64_t top_k, uint32_t seed,
                         SlotOptions options = {}) {
  Slots slots{num_tokens, top_k, {}, {}};
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<int32_t> experts(static_cast<size_t>(num_experts));
  std::vector<double> priority(experts.size());
  for (int64_t token = 0; token < num_tokens; ++token) {
    std::iota(experts.begin(), experts.end(), 0);
    for (size_t expert = 0; expert < experts.size(); ++expert) {
      priority[expert] = uniform(random) + options.skew / static_cast<double>(expert + 1);
    }
    std::partial_sort(experts.begin(), experts.begin() + static_cast<std::ptrdiff_t>(top_k),
                      experts.end(), [&](int32_t a, int32_t b) {
                        return priority[static_cast<size_t>(a)] > priority[static_cast<size_t>(b)];
                      });
    for (int64_t j = 0; j < top_k; ++j) {
      const bool is_empty = uniform(random) < options.empty_share;
      slots.ids.push_back(is_empty ? -1 : experts[static_cast<size_t>(j)]);
      slots.weights.push_back(static_cast<float>(0.05 + uniform(random)));
    }
  }
  return slots;
}

inline RoutingPlan MakePlan(const Context& context, const Slots& slots, int64_t num_experts,
                            const RoutingPlanOptions& options = {}) {
  return BuildRoutingPlan(context, slots.id_view(), slots.weight_view(), num_experts, options);
}

}  // namespace opst

#endif  // OPST_OPS_TESTING_PLANS_H_
