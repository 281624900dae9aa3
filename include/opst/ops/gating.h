// Top-k gating: from router logits to expert ids and mixing weights. The plan is in routing_plan.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GATING_H_
#define OPST_OPS_GATING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "opst/context.h"
#include "opst/routing_plan.h"
#include "opst/tensor.h"

namespace opst {

enum class ScoreFunction : uint8_t {
  kSoftmax,
  kSigmoid,
  // Each choice has a softmax of its own, over the experts not chosen before it whose logit is
  // close to the best of them: (best - s) / max(|s|, best) <= 2·sparsemixer_epsilon.
  kSparsemixer,
};

// How a group of experts is ranked for group-limited selection.
enum class GroupScore : uint8_t { kMax, kSumOfTopTwo };

struct GatingOptions {
  int64_t top_k = 2;
  ScoreFunction score_function = ScoreFunction::kSoftmax;
  // Added to the scores for selection only, never to the mixing weights; [E] or empty.
  std::span<const float> selection_bias = {};
  // Experts stand in num_groups equal consecutive groups; only experts of the num_kept_groups best
  // groups may be chosen. 1 and 1 = no limit.
  int64_t num_groups = 1;
  int64_t num_kept_groups = 1;
  GroupScore group_score = GroupScore::kMax;
  float sparsemixer_epsilon = 0.01f;  // of kSparsemixer only
  // Whether the chosen scores are divided by their sum.
  bool renormalizes = true;
  // Multiplies the mixing weights last.
  float scale = 1.0f;
};

// Ids and weights of a batch; a row's slots stand in descending selection order.
struct GatingResult {
  std::vector<int32_t> expert_ids;    // [T,k], distinct within a row, always 0 … E-1
  std::vector<float> expert_weights;  // [T,k]
  int64_t num_empty_rows = 0;         // rows with no usable logit: ids 0 … k-1, weights 0
};

// s = softmax(logits) or sigmoid(logits) over E;  ids = top_k(s + bias);  w = s[ids];
// w /= Σw if renormalizes;  w *= scale.
//   logits  [T, E] f32, rows may be strided
// Rules: -inf is masked (score 0); NaN counts as -inf; +inf takes all the weight under softmax,
// several share it equally; ties go to the lower id. A row without any logit above -inf gets ids
// 0 … k-1 with weight 0, is counted, and warned about once per context. Rows are independent: the
// bits of one do not depend on its neighbours or on the number of threads.
// Accuracy against fp64: sigmoid within 4 ulp; softmax within 8 + |logit - largest logit| ulp,
// since that difference is rounded before exp. Cost: O(T·E·k) compares, one pass over memory.
// Errors (kInvalidArgument): k < 1 or k > E; E not divisible by the groups; kept groups that hold
// fewer than k experts; a bias of the wrong length, or with NaN or Inf; kSparsemixer with a bias,
// groups, or an epsilon that is no number above 0; a scale that is NaN or Inf.
// Source: Shazeer et al. 2017; groups and bias: DeepSeek-V2 and -V3 technical reports; sparsemixer:
// GRIN, arXiv:2409.12136.
GatingResult Gate(const Context& context, ConstTensorView logits, const GatingOptions& options);

// Gate, then BuildRoutingPlan.
RoutingPlan Route(const Context& context, ConstTensorView logits, const GatingOptions& options,
                  const RoutingPlanOptions& plan_options = {});

}  // namespace opst

#endif  // OPST_OPS_GATING_H_
