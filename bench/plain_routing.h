// Routing as a person writes it first: softmax, partial_sort and one vector of slots per expert.
// The rival of `opst bench routing`, never called the standard implementation.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_PLAIN_ROUTING_H_
#define OPST_BENCH_PLAIN_ROUTING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/shape.h"
#include "opst/context.h"
#include "opst/routing_plan.h"

namespace opst::bench {

struct PlainRouting {
  std::vector<int32_t> ids;                        // [T,k], best first
  std::vector<float> weights;                      // [T,k]
  std::vector<std::vector<int32_t>> expert_slots;  // [E] slots t·k + j, ascending
};

// Of logits [T, E] by the shape's E, k and renormalisation; rows on all workers.
PlainRouting RoutePlain(const Context& context, const LayerShape& shape, const float* logits,
                        int64_t num_tokens);

// The first difference between the two, "" when they agree: the same experts unless their logits
// are within rounding, weights within 10⁻⁵, the same rows in the same order.
std::string CompareRouting(const RoutingPlan& plan, const PlainRouting& plain, const float* logits);

}  // namespace opst::bench

#endif  // OPST_BENCH_PLAIN_ROUTING_H_
