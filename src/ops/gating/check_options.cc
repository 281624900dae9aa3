// The rules that gating options must obey, whatever the batch.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/gating/check_options.h"

#include <cmath>
#include <string_view>

#include "base/check.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "gating";

void CheckGroups(const GatingOptions& options, int64_t num_experts) {
  OPST_CHECK_ARG(options.num_groups >= 1 && num_experts % options.num_groups == 0, kOp,
                 "num_groups must divide the number of experts", options.num_groups, " for ",
                 num_experts, " experts");
  OPST_CHECK_ARG(options.num_kept_groups >= 1 && options.num_kept_groups <= options.num_groups, kOp,
                 "num_kept_groups must be between 1 and num_groups", options.num_kept_groups,
                 " of ", options.num_groups);
  const int64_t candidates = options.num_kept_groups * (num_experts / options.num_groups);
  OPST_CHECK_ARG(options.top_k <= candidates, kOp, "the kept groups must hold top_k experts",
                 options.num_kept_groups, " groups with ", candidates, " experts for top_k ",
                 options.top_k);
}

void CheckBias(std::span<const float> bias, int64_t num_experts) {
  OPST_CHECK_ARG(bias.empty() || static_cast<int64_t>(bias.size()) == num_experts, kOp,
                 "selection_bias must have one value per expert", bias.size(), " for ", num_experts,
                 " experts");
  for (size_t expert = 0; expert < bias.size(); ++expert) {
    OPST_CHECK_ARG(std::isfinite(bias[expert]), kOp, "selection_bias must be finite", bias[expert],
                   " at [", expert, "]");
  }
}

void CheckLoad(const GatingOptions& options, int64_t num_experts) {
  const float ratio = options.load_balance_ratio;
  OPST_CHECK_ARG(std::isfinite(ratio) && ratio >= 0, kOp,
                 "load_balance_ratio must be finite and not negative", ratio);
  if (ratio == 0) return;
  OPST_CHECK_ARG(static_cast<int64_t>(options.utilization.size()) == num_experts, kOp,
                 "load_balance_ratio needs one utilization per expert", options.utilization.size(),
                 " for ", num_experts, " experts");
  for (size_t expert = 0; expert < options.utilization.size(); ++expert) {
    const float utilization = options.utilization[expert];
    OPST_CHECK_ARG(std::isfinite(utilization) && utilization >= 0, kOp,
                   "utilization must be finite and not negative", utilization, " at [", expert,
                   "]");
  }
}

void CheckEntropyThresholds(const GatingOptions& options) {
  const auto& thresholds = options.selection.entropy_thresholds;
  OPST_CHECK_ARG(!thresholds.empty(), kOp, "kEntropy needs entropy_thresholds", "none");
  EntropyThreshold last{0, 0};
  for (const EntropyThreshold& threshold : thresholds) {
    OPST_CHECK_ARG(threshold.entropy > last.entropy && threshold.entropy <= 1 &&
                       threshold.num_experts > last.num_experts &&
                       threshold.num_experts <= options.top_k,
                   kOp,
                   "entropy_thresholds must ascend, entropies within 0..1 and experts within "
                   "1..top_k",
                   "(", threshold.entropy, ", ", threshold.num_experts, ") after (", last.entropy,
                   ", ", last.num_experts, ") for top_k ", options.top_k);
    last = threshold;
  }
}

void CheckSelection(const GatingOptions& options) {
  const SelectionOptions& selection = options.selection;
  switch (selection.rule) {
    case SelectionRule::kTopK:
      return;
    case SelectionRule::kThreshold:
      OPST_CHECK_ARG(selection.threshold >= 0 && selection.threshold < 1, kOp,
                     "threshold must be at least 0 and below 1", selection.threshold);
      return;
    case SelectionRule::kTopP:
      OPST_CHECK_ARG(selection.top_p > 0 && selection.top_p <= 1, kOp,
                     "top_p must be above 0 and at most 1", selection.top_p);
      return;
    case SelectionRule::kEntropy:
      CheckEntropyThresholds(options);
      return;
  }
}

void CheckSparsemixer(const GatingOptions& options) {
  OPST_CHECK_ARG(options.selection_bias.empty() && options.num_groups == 1, kOp,
                 "sparsemixer takes neither a selection_bias nor groups",
                 options.selection_bias.size(), " values, ", options.num_groups, " groups");
  OPST_CHECK_ARG(std::isfinite(options.sparsemixer_epsilon) && options.sparsemixer_epsilon > 0, kOp,
                 "sparsemixer_epsilon must be a number above 0", options.sparsemixer_epsilon);
  OPST_CHECK_ARG(
      options.selection.rule == SelectionRule::kTopK && options.load_balance_ratio == 0 &&
          !options.returns_scores,
      kOp,
      "sparsemixer has no scores over all experts: it takes kTopK, no load_balance_ratio and no "
      "returns_scores",
      "rule ", static_cast<int>(options.selection.rule), ", ratio ", options.load_balance_ratio);
}

}  // namespace

void CheckGatingOptions(const GatingOptions& options, int64_t num_experts) {
  OPST_CHECK_ARG(options.top_k >= 1 && options.top_k <= num_experts, kOp,
                 "top_k must be between 1 and the number of experts", "top_k ", options.top_k,
                 " of ", num_experts, " experts");
  CheckGroups(options, num_experts);
  OPST_CHECK_ARG(std::isfinite(options.scale), kOp, "scale must be finite", options.scale);
  OPST_CHECK_ARG(
      std::isfinite(options.renormalization_epsilon) && options.renormalization_epsilon >= 0, kOp,
      "renormalization_epsilon must be finite and not negative", options.renormalization_epsilon);
  if (options.score_function == ScoreFunction::kSparsemixer) CheckSparsemixer(options);
  CheckBias(options.selection_bias, num_experts);
  CheckLoad(options, num_experts);
  CheckSelection(options);
}

}  // namespace opst
