// The gating of one token, step by step; batches and checks are in gating.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/gating/gating_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gating.h"

namespace opst {
namespace {

// softmax with an infinite maximum: the +inf logits share the weight equally.
void ShareAmongInfinite(const std::vector<float>& logits, std::vector<float>& scores) {
  const auto is_infinite = [](float x) { return x == std::numeric_limits<float>::infinity(); };
  const auto count = std::count_if(logits.begin(), logits.end(), is_infinite);
  const float share = 1.0f / static_cast<float>(count);
  std::transform(logits.begin(), logits.end(), scores.begin(),
                 [&](float x) { return is_infinite(x) ? share : 0.0f; });
}

// Weights of one row by sparsemixer, from the ids that TopK chose by logit. Later choices do not
// see earlier ones.
void SparsemixerWeights(const GatingOptions& options, const std::vector<float>& logits,
                        const int32_t* ids, float* weights) {
  std::vector<bool> is_chosen(logits.size(), false);
  for (size_t rank = 0; rank < static_cast<size_t>(options.top_k); ++rank) {
    const float best = logits[static_cast<size_t>(ids[rank])];
    float sum = 0;
    for (size_t expert = 0; expert < logits.size(); ++expert) {
      const float logit = logits[expert];
      const float distance = (best - logit) / std::max(std::fabs(logit), best);
      const bool is_far = distance > 2 * options.sparsemixer_epsilon;
      if (is_chosen[expert] || is_far) continue;
      sum += logit == best ? 1.0f : std::exp(logit - best);  // equal ones may be infinite
    }
    // -inf = masked: nothing is left to choose from.
    const bool is_masked = best == -std::numeric_limits<float>::infinity();
    weights[rank] = is_masked ? 0 : options.scale / sum;
    is_chosen[static_cast<size_t>(ids[rank])] = true;
  }
}

void ComputeScores(const GatingOptions& options, float max, GatingScratch& scratch) {
  const size_t n = scratch.logits.size();
  if (options.score_function == ScoreFunction::kSigmoid) {
    Sigmoid(scratch.logits.data(), n, scratch.scores.data());
  } else if (std::isinf(max)) {
    ShareAmongInfinite(scratch.logits, scratch.scores);
  } else {
    Softmax(scratch.logits.data(), n, max, scratch.scores.data());
  }
}

// Without a bias the order of the scores is the order of the logits, which rounding of the scores
// cannot turn into ties.
const std::vector<float>& SelectionValues(const GatingOptions& options, GatingScratch& scratch) {
  if (options.selection_bias.empty()) return scratch.logits;
  for (size_t expert = 0; expert < scratch.scores.size(); ++expert) {
    const bool is_masked = scratch.logits[expert] == -std::numeric_limits<float>::infinity();
    scratch.selection[expert] = is_masked ? scratch.logits[expert]
                                          : scratch.scores[expert] + options.selection_bias[expert];
  }
  return scratch.selection;
}

float RankGroup(const float* values, size_t size, GroupScore rule) {
  float first = -std::numeric_limits<float>::infinity();
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
void ExcludeOtherGroups(const GatingOptions& options, GatingScratch& scratch) {
  const auto num_groups = static_cast<size_t>(options.num_groups);
  const size_t size = scratch.keys.size() / num_groups;
  const std::vector<float>& values =
      options.selection_bias.empty() ? scratch.scores : scratch.selection;
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

void ComputeWeights(const GatingOptions& options, const std::vector<float>& scores,
                    const int32_t* ids, float* weights) {
  const auto top_k = static_cast<size_t>(options.top_k);
  float sum = 0;
  for (size_t rank = 0; rank < top_k; ++rank) {
    weights[rank] = scores[static_cast<size_t>(ids[rank])];
    sum += weights[rank];
  }
  for (size_t rank = 0; rank < top_k; ++rank) {
    if (options.renormalizes && sum > 0) weights[rank] /= sum;
    weights[rank] *= options.scale;
  }
}

}  // namespace

GatingScratch::GatingScratch(int64_t num_experts, int64_t num_groups)
    : logits(static_cast<size_t>(num_experts)),
      scores(logits.size()),
      selection(logits.size()),
      keys(logits.size()),
      group_scores(static_cast<size_t>(num_groups)),
      group_keys(group_scores.size()),
      kept_groups(group_scores.size()) {}

bool GateRow(const float* logits, int64_t num_experts, const GatingOptions& options,
             GatingScratch& scratch, int32_t* ids, float* weights) {
  const auto n = static_cast<size_t>(num_experts);
  const auto top_k = static_cast<size_t>(options.top_k);
  const float max = CleanLogits(logits, n, scratch.logits.data());
  if (max == -std::numeric_limits<float>::infinity()) {
    for (size_t rank = 0; rank < top_k; ++rank) ids[rank] = static_cast<int32_t>(rank);
    std::fill_n(weights, top_k, 0.0f);
    return false;
  }
  if (options.score_function == ScoreFunction::kSparsemixer) {
    SortKeys(scratch.logits.data(), n, scratch.keys.data());
    TopK(scratch.keys.data(), n, top_k, ids);
    SparsemixerWeights(options, scratch.logits, ids, weights);
    return true;
  }
  ComputeScores(options, max, scratch);
  SortKeys(SelectionValues(options, scratch).data(), n, scratch.keys.data());
  if (options.num_kept_groups < options.num_groups) ExcludeOtherGroups(options, scratch);
  TopK(scratch.keys.data(), n, top_k, ids);
  ComputeWeights(options, scratch.scores, ids, weights);
  return true;
}

}  // namespace opst
