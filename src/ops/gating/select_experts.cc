// Which experts one token gets: selection values, groups, top-k, and the rule that may stop early.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gating.h"
#include "ops/gating/gating_row.h"

namespace opst {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

bool SelectsByLogit(const GatingOptions& options, std::span<const float> load_factors) {
  return options.selection_bias.empty() && load_factors.empty();
}

// Without bias and load factors the order of the scores is the order of the logits, which rounding
// of the scores cannot turn into ties.
const std::vector<float>& SelectionValues(const GatingOptions& options,
                                          std::span<const float> load_factors,
                                          GatingScratch& scratch) {
  if (SelectsByLogit(options, load_factors)) return scratch.logits;
  const std::span<const float> bias = options.selection_bias;
  for (size_t expert = 0; expert < scratch.scores.size(); ++expert) {
    float value = scratch.scores[expert];
    if (!load_factors.empty()) value *= load_factors[expert];
    if (!bias.empty()) value += bias[expert];
    scratch.selection[expert] = scratch.logits[expert] == kMinusInfinity ? kMinusInfinity : value;
  }
  return scratch.selection;
}

float RankGroup(const float* values, size_t size, GroupScore rule) {
  float first = kMinusInfinity;
  float second = first;
  for (size_t i = 0; i < size; ++i) {
    if (values[i] > first) {
      second = first;
      first = values[i];
    } else if (values[i] > second) {
      second = values[i];
    }
  }
  return rule == GroupScore::kMax || size < 2 ? first : first + second;
}

// Excludes the keys of all groups but the best. Groups are ranked on scores, not logits, since sums
// of logits order differently.
void ExcludeOtherGroups(const GatingOptions& options, const std::vector<float>& values,
                        GatingScratch& scratch) {
  const auto num_groups = static_cast<size_t>(options.num_groups);
  const size_t size = scratch.keys.size() / num_groups;
  for (size_t group = 0; group < num_groups; ++group) {
    scratch.group_scores[group] =
        RankGroup(values.data() + group * size, size, options.group_score);
  }
  SortKeys(scratch.group_scores.data(), num_groups, scratch.group_keys.data());
  TopK(scratch.group_keys.data(), num_groups, static_cast<size_t>(options.num_kept_groups),
       scratch.kept_groups.data());
  // TopK marked the chosen groups' keys; every other group's experts are excluded.
  for (size_t group = 0; group < num_groups; ++group) {
    if (scratch.group_keys[group] == kExcludedKey) continue;
    std::fill_n(scratch.keys.begin() + static_cast<std::ptrdiff_t>(group * size), size,
                kExcludedKey);
  }
}

// Σ s in double: a sum of E equal floats is then exact, so that an even row is exactly 1/E and no
// expert of it is above that.
double Total(const std::vector<float>& scores) {
  double total = 0;
  for (const float score : scores) total += static_cast<double>(score);
  return total;
}

int64_t CountByEntropy(const GatingOptions& options, const GatingScratch& scratch) {
  const size_t n = scratch.scores.size();
  const auto total = static_cast<float>(Total(scratch.scores));
  const bool is_certain = n < 2 || !(total > 0);
  const float entropy =
      is_certain ? 0 : Entropy(scratch.scores.data(), n, total) / std::log(static_cast<float>(n));
  for (const EntropyThreshold& step : options.selection.entropy_thresholds) {
    if (entropy < step.entropy) return step.num_experts;
  }
  return options.top_k;
}

// Keeps those of the candidates that are above the threshold, in their order; else the first.
size_t KeepAbove(const SelectionOptions& selection, const std::vector<float>& scores,
                 size_t num_candidates, int32_t* ids) {
  const double threshold = selection.threshold > 0 ? static_cast<double>(selection.threshold)
                                                   : 1 / static_cast<double>(scores.size());
  const double total = Total(scores);
  size_t count = 0;
  for (size_t rank = 0; rank < num_candidates; ++rank) {
    const auto score = static_cast<double>(scores[static_cast<size_t>(ids[rank])]);
    if (score / total > threshold) ids[count++] = ids[rank];
  }
  return std::max<size_t>(count, 1);
}

// How many of the candidates it takes to reach top_p.
size_t CountToTopP(const SelectionOptions& selection, const std::vector<float>& scores,
                   size_t num_candidates, int32_t* ids) {
  const double wanted = static_cast<double>(selection.top_p) * Total(scores);
  double sum = 0;
  size_t count = 0;
  for (size_t rank = 0; rank < num_candidates && (count == 0 || sum < wanted); ++rank) {
    const float score = scores[static_cast<size_t>(ids[rank])];
    if (score == 0 && rank > 0) continue;
    ids[count++] = ids[rank];
    sum += static_cast<double>(score);
  }
  return count;
}

}  // namespace

size_t SelectExperts(const GatingOptions& options, std::span<const float> load_factors,
                     GatingScratch& scratch, int32_t* ids) {
  const size_t n = scratch.logits.size();
  const std::vector<float>& values = SelectionValues(options, load_factors, scratch);
  SortKeys(values.data(), n, scratch.keys.data());
  if (options.num_kept_groups < options.num_groups) {
    const bool by_logit = SelectsByLogit(options, load_factors);
    ExcludeOtherGroups(options, by_logit ? scratch.scores : values, scratch);
  }
  const SelectionRule rule = options.selection.rule;
  const auto limit = static_cast<size_t>(
      rule == SelectionRule::kEntropy ? CountByEntropy(options, scratch) : options.top_k);
  TopK(scratch.keys.data(), n, limit, ids);
  if (rule == SelectionRule::kThreshold) {
    return KeepAbove(options.selection, scratch.scores, limit, ids);
  }
  if (rule == SelectionRule::kTopP) {
    return CountToTopP(options.selection, scratch.scores, limit, ids);
  }
  return limit;
}

}  // namespace opst
