// Gating with a full sort of each row.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/ref/reference.h"

namespace opst::ref {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> Scores(const std::vector<float>& logits, ScoreFunction function) {
  std::vector<float> scores(logits.size());
  const float max = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (function == ScoreFunction::kSigmoid) {
      // In double, since e^-x overflows f32 where the score is still representable.
      scores[i] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logits[i]))));
    } else if (max == kInfinity) {
      scores[i] = logits[i] == kInfinity ? 1.0f : 0.0f;
    } else {
      scores[i] = std::exp(logits[i] - max);
    }
    sum += scores[i];
  }
  if (function != ScoreFunction::kSigmoid) {
    for (float& score : scores) score /= sum;
  }
  return scores;
}

// Sparsemixer: choose the best, weigh it within a softmax of those close to it, take it out, again.
void GateSparsemixer(std::vector<float> logits, const GatingOptions& options, int32_t* ids,
                     float* weights) {
  for (size_t rank = 0; rank < static_cast<size_t>(options.top_k); ++rank) {
    // Those already taken are NaN.
    size_t best = logits.size();
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!std::isnan(logits[i]) && (best == logits.size() || logits[i] > logits[best])) best = i;
    }
    std::vector<float> close;
    for (const float logit : logits) {
      const float scale = std::max(std::fabs(logit), logits[best]);
      if ((logits[best] - logit) / scale > 2 * options.sparsemixer_epsilon) continue;
      if (!std::isnan(logit)) close.push_back(logit);
    }
    float weight = 0;
    if (logits[best] == kInfinity) {
      const auto count = std::count(close.begin(), close.end(), kInfinity);
      weight = 1.0f / static_cast<float>(count);
    } else if (logits[best] > -kInfinity) {
      float sum = 0;
      for (const float logit : close) sum += std::exp(logit - logits[best]);
      weight = 1.0f / sum;
    }
    ids[rank] = static_cast<int32_t>(best);
    weights[rank] = weight * options.scale;
    logits[best] = std::numeric_limits<float>::quiet_NaN();
  }
}

// Experts of the groups that may be chosen.
std::vector<bool> KeptExperts(const std::vector<float>& values, const GatingOptions& options) {
  const size_t size = values.size() / static_cast<size_t>(options.num_groups);
  std::vector<float> rank;
  for (size_t begin = 0; begin < values.size(); begin += size) {
    std::vector<float> group(values.begin() + static_cast<std::ptrdiff_t>(begin),
                             values.begin() + static_cast<std::ptrdiff_t>(begin + size));
    std::sort(group.begin(), group.end(), std::greater<>());
    const bool sums = options.group_score == GroupScore::kSumOfTopTwo && size > 1;
    rank.push_back(sums ? group[0] + group[1] : group[0]);
  }
  std::vector<size_t> order(rank.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank[a] > rank[b]; });
  std::vector<bool> kept(values.size(), false);
  for (int64_t i = 0; i < options.num_kept_groups; ++i) {
    const size_t begin = order[static_cast<size_t>(i)] * size;
    std::fill_n(kept.begin() + static_cast<std::ptrdiff_t>(begin), size, true);
  }
  return kept;
}

// Experts in order of selection: kept ones first, then by value, ties to the lower id.
std::vector<int32_t> Order(const std::vector<float>& logits, const std::vector<float>& scores,
                           const GatingRequest& request) {
  const GatingOptions& options = *request.options;
  const bool is_changed = !options.selection_bias.empty() || !request.load_factors.empty();
  std::vector<float> changed = scores;
  for (size_t i = 0; is_changed && i < changed.size(); ++i) {
    if (!request.load_factors.empty()) changed[i] *= request.load_factors[i];
    if (!options.selection_bias.empty()) changed[i] += options.selection_bias[i];
    if (logits[i] == -kInfinity) changed[i] = -kInfinity;
  }
  const std::vector<bool> kept = KeptExperts(changed, options);
  const std::vector<float>& values = is_changed ? changed : logits;
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto i = static_cast<size_t>(a);
    const auto j = static_cast<size_t>(b);
    return kept[i] != kept[j] ? kept[i] > kept[j] : values[i] > values[j];
  });
  return order;
}

// Cuts the best top_k experts down by the selection rule; p are the scores over their sum.
void ApplyRule(const GatingOptions& options, const std::vector<float>& scores,
               std::vector<int32_t>& ids) {
  const SelectionOptions& selection = options.selection;
  double total = 0;
  for (const float score : scores) total += static_cast<double>(score);
  const auto p = [&](int32_t expert) {
    return static_cast<double>(scores[static_cast<size_t>(expert)]) / total;
  };
  const auto num_experts = static_cast<double>(scores.size());
  const int32_t best = ids[0];
  if (selection.rule == SelectionRule::kThreshold) {
    const double threshold =
        selection.threshold > 0 ? static_cast<double>(selection.threshold) : 1 / num_experts;
    std::erase_if(ids, [&](int32_t expert) { return !(p(expert) > threshold); });
  } else if (selection.rule == SelectionRule::kTopP) {
    double sum = 0;
    std::erase_if(ids, [&](int32_t expert) {
      const bool is_taken =
          expert == best || (p(expert) > 0 && sum < static_cast<double>(selection.top_p));
      if (is_taken) sum += p(expert);
      return !is_taken;
    });
  } else if (selection.rule == SelectionRule::kEntropy) {
    double entropy = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double share = p(static_cast<int32_t>(i));
      if (share > 0) entropy -= share * std::log(share) / std::log(num_experts);
    }
    for (const EntropyThreshold& step : selection.entropy_thresholds) {
      if (!(entropy < static_cast<double>(step.entropy))) continue;
      ids.resize(static_cast<size_t>(step.num_experts));
      break;
    }
  }
  if (ids.empty()) ids.push_back(best);
}

void ComputeWeights(const GatingOptions& options, const std::vector<float>& logits,
                    const std::vector<float>& scores, const std::vector<int32_t>& ids,
                    float* weights) {
  float sum = 0;
  std::vector<float> chosen;
  for (const int32_t expert : ids) chosen.push_back(logits[static_cast<size_t>(expert)]);
  if (options.score_function == ScoreFunction::kSoftmaxOfChosen) {
    if (*std::max_element(chosen.begin(), chosen.end()) == -kInfinity) {
      std::fill(chosen.begin(), chosen.end(), 0.0f);
    } else {
      chosen = Scores(chosen, ScoreFunction::kSoftmax);
    }
    sum = 1;
  } else {
    for (size_t i = 0; i < ids.size(); ++i) {
      chosen[i] = scores[static_cast<size_t>(ids[i])];
      sum += chosen[i];
    }
    sum = options.renormalizes ? sum + options.renormalization_epsilon : 1;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    weights[i] = (sum > 0 ? chosen[i] / sum : chosen[i]) * options.scale;
  }
}

// Gates logits without NaN, of which at least one is above -inf.
void GateUsableRow(const GatingRequest& request, const std::vector<float>& logits, int32_t* ids,
                   float* weights, float* all_scores) {
  const GatingOptions& options = *request.options;
  if (options.score_function == ScoreFunction::kSparsemixer) {
    GateSparsemixer(logits, options, ids, weights);
    return;
  }
  const std::vector<float> scores = Scores(logits, options.score_function);
  if (all_scores != nullptr) std::copy(scores.begin(), scores.end(), all_scores);
  std::vector<int32_t> chosen = Order(logits, scores, request);
  chosen.resize(static_cast<size_t>(options.top_k));
  ApplyRule(options, scores, chosen);
  std::copy(chosen.begin(), chosen.end(), ids);
  ComputeWeights(options, logits, scores, chosen, weights);
}

}  // namespace

void Gate(const Context&, const GatingRequest& request) {
  const GatingOptions& options = *request.options;
  GatingResult& result = *request.result;
  const auto top_k = static_cast<size_t>(options.top_k);
  const auto num_experts = static_cast<size_t>(request.logits.dim(1));
  std::fill(result.expert_ids.begin(), result.expert_ids.end(), -1);
  for (size_t token = 0; token < static_cast<size_t>(request.logits.dim(0)); ++token) {
    const auto* row =
        reinterpret_cast<const float*>(request.logits.row(static_cast<int64_t>(token)));
    std::vector<float> logits(row, row + num_experts);
    for (float& logit : logits) logit = std::isnan(logit) ? -kInfinity : logit;
    const bool is_padding = !options.is_padding.empty() && options.is_padding[token] != 0;
    int32_t* ids = &result.expert_ids[token * top_k];
    float* weights = &result.expert_weights[token * top_k];
    if (*std::max_element(logits.begin(), logits.end()) > -kInfinity) {
      float* scores = result.scores.empty() ? nullptr : &result.scores[token * num_experts];
      GateUsableRow(request, logits, ids, weights, scores);
    } else if (!is_padding) {
      std::iota(ids, ids + top_k, 0);
      ++result.num_empty_rows;
    }
    if (!is_padding) continue;
    std::fill_n(ids, top_k, -1);
    std::fill_n(weights, top_k, 0.0f);
  }
}

}  // namespace opst::ref
