// Expert-choice routing: experts take tokens, not tokens experts. Token choice is gating.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_EXPERT_CHOICE_H_
#define OPST_OPS_EXPERT_CHOICE_H_

#include <cstdint>
#include <span>

#include "opst/context.h"
#include "opst/routing_plan.h"
#include "opst/tensor.h"

namespace opst {

struct ExpertChoiceRoutingOptions {
  // Tokens an expert takes: min(T, max(1, ceil(capacity_factor · T / E))): on average,
  // capacity_factor experts serve a token.
  double capacity_factor = 2;
  // Whether a token's weights are divided by their sum. The paper does not.
  bool renormalizes = false;
  // Not 0 = tokens that are no tokens: nobody takes them, and T of the capacity does not count
  // them; [T] or empty.
  std::span<const uint8_t> is_padding = {};
};

// S = softmax(logits) over the experts of a token; each expert takes the tokens with the largest
// scores of its column; weights are the scores.
//   logits  [T, E] f32, rows may be strided
// The plan's k is the number of experts of the token that has most (at least 1); a token with fewer
// has empty slots (-1), one that nobody took has no row at all. Slots of a token stand in
// descending score, ties in the lower expert id; of tokens with one score the lower number is
// taken.
// Rules: those of Gate for NaN and Inf; a masked pair (-inf, NaN) is never taken, then the expert
// takes fewer. Tokens without a usable logit get no expert and are counted in num_empty_rows.
// A token's experts depend on the other tokens of the batch, later ones of its text included: for
// encoders, or for one token per sequence. Bits do not depend on the number of threads.
// Cost: O(T·E); memory T·E f32 and T i32 per worker. Threads: blocks of rows, then experts.
// Errors (kInvalidArgument): logits of another rank or dtype; no experts; a capacity factor that is
// not above 0, or NaN or Inf; is_padding of another length than T; T or T·k ≥ 2³¹.
// Source: Zhou et al. 2022, arXiv:2202.09368.
RoutingPlan RouteByExpertChoice(const Context& context, ConstTensorView logits,
                                const ExpertChoiceRoutingOptions& options = {});

}  // namespace opst

#endif  // OPST_OPS_EXPERT_CHOICE_H_
