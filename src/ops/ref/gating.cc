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
  if (function == ScoreFunction::kSoftmax) {
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
                           const GatingOptions& options) {
  std::vector<float> biased = scores;
  for (size_t i = 0; i < options.selection_bias.size(); ++i) {
    biased[i] = logits[i] == -kInfinity ? -kInfinity : biased[i] + options.selection_bias[i];
  }
  const std::vector<bool> kept = KeptExperts(biased, options);
  const std::vector<float>& values = options.selection_bias.empty() ? logits : biased;
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto i = static_cast<size_t>(a);
    const auto j = static_cast<size_t>(b);
    return kept[i] != kept[j] ? kept[i] > kept[j] : values[i] > values[j];
  });
  return order;
}

}  // namespace

void Gate(const Context&, const GatingRequest& request) {
  const GatingOptions& options = *request.options;
  const auto top_k = static_cast<size_t>(options.top_k);
  for (int64_t token = 0; token < request.logits.dim(0); ++token) {
    const auto* row = reinterpret_cast<const float*>(request.logits.row(token));
    std::vector<float> logits(row, row + request.logits.dim(1));
    for (float& logit : logits) logit = std::isnan(logit) ? -kInfinity : logit;
    int32_t* ids = &request.result->expert_ids[static_cast<size_t>(token) * top_k];
    float* weights = &request.result->expert_weights[static_cast<size_t>(token) * top_k];
    if (*std::max_element(logits.begin(), logits.end()) == -kInfinity) {
      std::iota(ids, ids + top_k, 0);
      std::fill_n(weights, top_k, 0.0f);
      ++request.result->num_empty_rows;
      continue;
    }
    if (options.score_function == ScoreFunction::kSparsemixer) {
      GateSparsemixer(logits, options, ids, weights);
      continue;
    }
    const std::vector<float> scores = Scores(logits, options.score_function);
    const std::vector<int32_t> order = Order(logits, scores, options);
    float sum = 0;
    for (size_t rank = 0; rank < top_k; ++rank) {
      ids[rank] = order[rank];
      weights[rank] = scores[static_cast<size_t>(order[rank])];
      sum += weights[rank];
    }
    for (size_t rank = 0; rank < top_k; ++rank) {
      if (options.renormalizes && sum > 0) weights[rank] /= sum;
      weights[rank] *= options.scale;
    }
  }
}

}  // namespace opst::ref
