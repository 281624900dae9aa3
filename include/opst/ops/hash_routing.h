// Hash routing: a token's experts follow from its id alone. No router, no scores.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_HASH_ROUTING_H_
#define OPST_OPS_HASH_ROUTING_H_

#include <cstdint>
#include <span>

#include "opst/context.h"
#include "opst/routing_plan.h"
#include "opst/tensor.h"

namespace opst {

struct HashRoutingOptions {
  int64_t num_experts = 0;
  int64_t top_k = 1;
  // [V · top_k] expert ids of each token id, distinct within one; empty = a hash of id and seed.
  std::span<const int32_t> table = {};
  uint64_t seed = 0;
};

// expert_ids[t] = table[token_ids[t]], or k distinct experts drawn evenly by a hash;
// every weight is 1 / k.
//   token_ids  [T] i32, contiguous; -1 = no token: it gets no expert
// The hash (SplitMix64) is part of the contract: a seed means the same experts on every machine and
// in every version. Cost: O(T·k²). Runs on the calling thread.
// Errors (kInvalidArgument): token_ids of another rank or dtype; an id below -1, or outside the
// table; a table whose length is no multiple of k, or with an expert outside 0 … E-1 or twice for
// one token; k < 1 or k > E; T·k ≥ 2³¹.
// Source: Roller et al. 2021, arXiv:2106.04426.
RoutingPlan RouteByHash(const Context& context, ConstTensorView token_ids,
                        const HashRoutingOptions& options,
                        const RoutingPlanOptions& plan_options = {});

}  // namespace opst

#endif  // OPST_OPS_HASH_ROUTING_H_
