// One row of gating in fp64, and how far f32 may be from it; written apart from both
// implementations.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_TESTING_GATING_ORACLE_H_
#define OPST_OPS_TESTING_GATING_ORACLE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "opst/ops/gating.h"

namespace opst {

// The share of a number that rounding to f32 changes at most, the u of the bounds below.
inline constexpr double kRounding = 0x1p-24;

// Not for sparsemixer.
struct GatingOracle {
  GatingOracle(const GatingOptions& rules, std::span<const float> row)
      : options(rules),
        num_experts(static_cast<int64_t>(row.size())),
        group_size(num_experts / options.num_groups) {
    for (const float logit : row) logits.push_back(std::isnan(logit) ? -HUGE_VAL : logit);
    const double max = *std::max_element(logits.begin(), logits.end());
    is_empty = max == -HUGE_VAL;
    if (is_empty) return;
    ComputeScores(max);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double bias = options.selection_bias.empty() ? 0 : options.selection_bias[i];
      const bool is_masked = !options.selection_bias.empty() && logits[i] == -HUGE_VAL;
      biased.push_back(is_masked ? -HUGE_VAL : scores[i] + bias);
      // The sum is rounded once more.
      biased_errors.push_back(is_masked ? 0
                              : options.selection_bias.empty()
                                  ? errors[i]
                                  : errors[i] + kRounding * std::abs(biased[i]));
    }
    // Without a bias experts are ordered by their logits, which are exact.
    values = options.selection_bias.empty() ? logits : biased;
    value_errors =
        options.selection_bias.empty() ? std::vector<double>(logits.size(), 0.0) : biased_errors;
    for (int64_t group = 0; group < options.num_groups; ++group) RankGroup(group);
    DecideGroups();
  }

  // Sigmoid: 4 ulp, as the contract says. Softmax with d = largest logit - logit: d is rounded,
  // which moves the power by d·u; exp is within 1 ulp = 2u, so the sum of n powers, added one by
  // one at worst, is within n + 1 + Σ p·d ≤ n + 1 + ln n (the entropy of p is at least that sum);
  // the division rounds once. 12 is above the constants and ln 1024.
  void ComputeScores(double max) {
    const auto n = static_cast<double>(num_experts);
    double sum = 0;
    for (const double logit : logits) {
      const double distance = max == HUGE_VAL ? 0 : std::min(max - logit, 1e3);
      double score = 1 / (1 + std::exp(-logit));
      double share = 8 * kRounding;
      if (options.score_function == ScoreFunction::kSoftmax) {
        score = max == HUGE_VAL ? (logit == HUGE_VAL ? 1 : 0) : std::exp(logit - max);
        share = (n + 12 + distance) * kRounding;
      }
      scores.push_back(score);
      shares.push_back(share);
      sum += score;
    }
    for (size_t i = 0; i < logits.size(); ++i) {
      if (options.score_function == ScoreFunction::kSoftmax) scores[i] /= sum;
      errors.push_back(shares[i] * scores[i]);
    }
  }

  // A maximum is off by at most the largest error, a sum of two by twice that and its rounding.
  void RankGroup(int64_t group) {
    const auto begin = biased.begin() + group * group_size;
    std::vector<double> sorted(begin, begin + group_size);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const bool sums = options.group_score == GroupScore::kSumOfTopTwo && group_size > 1;
    const double rank = sums ? sorted[0] + sorted[1] : sorted[0];
    const auto first = biased_errors.begin() + group * group_size;
    const double error = *std::max_element(first, first + group_size);
    ranks.push_back(rank);
    rank_errors.push_back(std::isinf(rank) ? 0 : 2 * error + kRounding * std::abs(rank));
  }

  // A group is surely out when as many as are kept surely rank above it, and may be out when as
  // many possibly do.
  void DecideGroups() {
    for (size_t group = 0; group < ranks.size(); ++group) {
      int64_t surely = 0;
      int64_t possibly = 0;
      for (size_t other = 0; other < ranks.size(); ++other) {
        const double error = rank_errors[group] + rank_errors[other];
        surely += other != group && ranks[other] > ranks[group] + error;
        possibly += other != group && ranks[other] >= ranks[group] - error;
      }
      is_surely_out.push_back(surely >= options.num_kept_groups);
      may_be_out.push_back(possibly >= options.num_kept_groups);
    }
  }

  // Experts in order of selection.
  std::vector<int32_t> Selected() const {
    std::vector<int64_t> groups(ranks.size());
    std::iota(groups.begin(), groups.end(), 0);
    std::stable_sort(groups.begin(), groups.end(), [&](int64_t a, int64_t b) {
      return ranks[static_cast<size_t>(a)] > ranks[static_cast<size_t>(b)];
    });
    groups.resize(static_cast<size_t>(options.num_kept_groups));
    std::sort(groups.begin(), groups.end());
    std::vector<int32_t> order;
    for (const int64_t group : groups) {
      for (int64_t i = 0; i < group_size; ++i) {
        order.push_back(static_cast<int32_t>(group * group_size + i));
      }
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
    });
    order.resize(static_cast<size_t>(options.top_k));
    return order;
  }

  size_t GroupOf(size_t expert) const { return expert / static_cast<size_t>(group_size); }

  // Whether f32 may choose `chosen` while `other` is left.
  bool MayPrecede(size_t chosen, size_t other) const {
    if (is_surely_out[GroupOf(chosen)]) return false;
    if (GroupOf(chosen) != GroupOf(other) && may_be_out[GroupOf(other)]) return true;
    // Equal logits (and biases) give equal bits, and then the lower id wins.
    if (logits[chosen] == logits[other] && biased[chosen] == biased[other]) return chosen < other;
    return values[chosen] >= values[other] - value_errors[chosen] - value_errors[other];
  }

  double Weight(const int32_t* ids, size_t slot) const {
    const double score = scores[static_cast<size_t>(ids[slot])];
    const double sum = SumOf(scores, ids);
    return (options.renormalizes && sum > 0 ? score / sum : score) * options.scale;
  }
  // Of one score, the sum of k and the division when renormalised; two more roundings for the
  // scale.
  double WeightError(const int32_t* ids, size_t slot) const {
    const double share = shares[static_cast<size_t>(ids[slot])];
    const double sum = SumOf(scores, ids);
    const bool divides = options.renormalizes && sum > 0;
    const double sum_share =
        divides ? SumOf(errors, ids) / sum + static_cast<double>(options.top_k) * kRounding : 0;
    return (share + sum_share + 2 * kRounding) * Weight(ids, slot);
  }
  double SumOf(const std::vector<double>& of, const int32_t* ids) const {
    double sum = 0;
    for (int64_t j = 0; j < options.top_k; ++j) sum += of[static_cast<size_t>(ids[j])];
    return sum;
  }

  const GatingOptions& options;
  int64_t num_experts;
  int64_t group_size;
  bool is_empty = false;
  std::vector<double> logits;
  std::vector<double> scores, shares, errors;   // f32 is within shares · scores = errors
  std::vector<double> biased, biased_errors;    // scores with the bias
  std::vector<double> values, value_errors;     // by which experts are ordered
  std::vector<double> ranks, rank_errors;       // by which groups are
  std::vector<bool> is_surely_out, may_be_out;  // of groups
};

}  // namespace opst

#endif  // OPST_OPS_TESTING_GATING_ORACLE_H_
