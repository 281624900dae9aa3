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
  // Scores as kSoftmax, but the weights are a softmax over the chosen logits alone. The same as
  // kSoftmax renormalised, except that scores too small for f32 still get their weights.
  kSoftmaxOfChosen,
};

// How a group of experts is ranked for group-limited selection.
enum class GroupScore : uint8_t { kMax, kSumOfTopTwo };

// How many of the top_k best experts a row takes. p = the scores divided by their sum over E; a
// selection bias has no part in p. An expert with p = 0 is only taken by kTopK and kEntropy.
enum class SelectionRule : uint8_t {
  kTopK,       // all top_k
  kThreshold,  // those with p > threshold, but at least the best one
  kTopP,       // the fewest, best first, whose p together reach top_p; all top_k if they do not
  kEntropy,    // num_experts of the first entropy_thresholds entry above H; else all top_k
};

// A row whose entropy H = -Σ p ln p / ln E (0 certain … 1 undecided) is below `entropy` takes
// num_experts.
struct EntropyThreshold {
  float entropy = 0;
  int64_t num_experts = 1;
  bool operator==(const EntropyThreshold&) const = default;
};

struct SelectionOptions {
  SelectionRule rule = SelectionRule::kTopK;
  float threshold = 0;  // of kThreshold; 0 = 1/E
  float top_p = 1;      // of kTopP
  // Of kEntropy; both values of an entry larger than those of the one before it.
  std::vector<EntropyThreshold> entropy_thresholds = {};
  bool operator==(const SelectionOptions&) const = default;
};

struct GatingOptions {
  int64_t top_k = 2;  // slots of a row
  ScoreFunction score_function = ScoreFunction::kSoftmax;
  SelectionOptions selection = {};
  // Added to the scores for selection only, never to the mixing weights; [E] or empty.
  std::span<const float> selection_bias = {};
  // Above 0, experts are selected by s · max(1, u)^-load_balance_ratio (+ bias), u being their
  // utilization: those busier than the mean are passed over for others. Mixing weights stay those
  // of s. The one rule whose u, when it comes from a LoadTracker, depends on other tokens.
  float load_balance_ratio = 0;
  std::span<const float> utilization = {};  // [E] load of an expert over the mean load
  // Experts stand in num_groups equal consecutive groups; only experts of the num_kept_groups best
  // groups may be chosen. 1 and 1 = no limit.
  int64_t num_groups = 1;
  int64_t num_kept_groups = 1;
  GroupScore group_score = GroupScore::kMax;
  float sparsemixer_epsilon = 0.01f;  // of kSparsemixer only
  // Whether the chosen scores are divided by their sum.
  bool renormalizes = true;
  // Added to that sum first.
  float renormalization_epsilon = 0;
  // Multiplies the mixing weights last.
  float scale = 1.0f;
  // Not 0 = tokens that are no tokens: padding, finished sequences. They get no expert; [T] or
  // empty.
  std::span<const uint8_t> is_padding = {};
  // Whether the result has the scores of all experts.
  bool returns_scores = false;
};

// Ids and weights of a batch; a row's slots stand in descending selection order, those that the
// selection rule leaves empty behind them.
struct GatingResult {
  std::vector<int32_t> expert_ids;    // [T,k], distinct within a row; -1 = an empty slot
  std::vector<float> expert_weights;  // [T,k], 0 in empty slots
  std::vector<float> scores;          // [T,E] s without bias, or empty
  int64_t num_empty_rows = 0;         // rows with no usable logit: ids 0 … k-1, weights 0
};

// s = softmax(logits) or sigmoid(logits) over E;  ids = top_k(s + bias), or fewer by the selection
// rule;  w = s[ids];  w /= Σw + renormalization_epsilon if renormalizes;  w *= scale.
//   logits  [T, E] f32, rows may be strided
// With load_balance_ratio: ids = top_k(s · max(1, utilization)^-load_balance_ratio + bias).
// Rules: -inf is masked (score 0); NaN counts as -inf; +inf takes all the weight under softmax,
// several share it equally; ties go to the lower id. A row without any logit above -inf gets ids
// 0 … k-1 with weight 0, is counted, and warned about once per context; padding is not counted.
// Rows are independent: the bits of one do not depend on its neighbours or on the number of
// threads.
// Accuracy against fp64: sigmoid within 4 ulp; softmax within 8 + |logit - largest logit| ulp,
// since that difference is rounded before exp. Cost: O(T·E·k) compares, one pass over memory.
// Errors (kInvalidArgument): k < 1 or k > E; E not divisible by the groups; kept groups that hold
// fewer than k experts; a bias of the wrong length, or with NaN or Inf; kSparsemixer with a bias,
// groups, a selection rule, scores, or an epsilon that is no number above 0; a scale or
// renormalisation epsilon that is NaN, Inf or, the latter, negative; so is load_balance_ratio,
// which also needs a utilization per expert, finite and not negative; a selection rule whose values
// are out of range; is_padding of another length than T.
// Source: Shazeer et al. 2017; groups and bias: DeepSeek-V2 and -V3 technical reports; sparsemixer:
// GRIN, arXiv:2409.12136; top-p: arXiv:2403.07652.
GatingResult Gate(const Context& context, ConstTensorView logits, const GatingOptions& options);

// Gate, then BuildRoutingPlan, whose capacity does not count padding.
RoutingPlan Route(const Context& context, ConstTensorView logits, const GatingOptions& options,
                  const RoutingPlanOptions& plan_options = {});

// The gradient of Gate: how a loss that depends on the mixing weights depends on the logits, the
// choice of experts held fixed. With g = scale · d_weights of a row's chosen experts C:
//   not renormalised:  d_s = g on C, else 0
//   renormalised:      d_s = (g - Σ_C g w) / (Σ_C s + renormalization_epsilon), w without scale
//   softmax:           d_logits = s (d_s - Σ d_s s);   sigmoid: d_logits = d_s s (1 - s)
//   kSoftmaxOfChosen:  d_logits = w (g - Σ_C g w) on C, else 0
// Neither a bias, groups, load nor a selection rule have a gradient of their own.
//   logits     [T, E] f32, rows may be strided: those that Gate got
//   result     what Gate returned for them; only the ids are read
//   d_weights  [T, k] f32, rows may be strided; values of empty slots are not read
//   options    those that Gate got
//   d_logits   [T, E] f32, rows may be strided; overwritten; may be the logits' memory
// Padding, rows without a usable logit, masked and NaN logits get 0; so does a softmax row with a
// logit of +inf, whose scores do not move. Rows are independent of each other and of the threads.
// Accuracy: that of the scores, times a few; a difference that cancels keeps the error of its
// terms. Cost: O(T·E). Errors (kInvalidArgument): as Gate; kSparsemixer, which is trained by an
// estimator of its own; shapes that differ; an id outside -1 … E-1.
void GateBackward(const Context& context, ConstTensorView logits, const GatingResult& result,
                  ConstTensorView d_weights, const GatingOptions& options, TensorView d_logits);

}  // namespace opst

#endif  // OPST_OPS_GATING_H_
