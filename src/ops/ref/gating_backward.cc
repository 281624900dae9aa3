// The gradient of gating, element by element and in double.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/ref/reference.h"

namespace opst::ref {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> Scores(const std::vector<double>& logits, bool is_sigmoid) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> scores;
  double sum = 0;
  for (const double logit : logits) {
    scores.push_back(is_sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit - max));
    sum += scores.back();
  }
  for (double& score : scores) score = is_sigmoid ? score : score / sum;
  return scores;
}

// ∂ weight of expert i / ∂ score of expert j, before the scale; both are chosen.
double WeightBySlope(const GatingOptions& options, double score, double sum, bool is_same) {
  const bool divides =
      options.renormalizes || options.score_function == ScoreFunction::kSoftmaxOfChosen;
  if (!divides || !(sum > 0)) return is_same ? 1 : 0;
  return ((is_same ? 1 : 0) - score / sum) / sum;
}

// ∂ score of expert i / ∂ logit of expert j.
double ScoreBySlope(const std::vector<double>& logits, const std::vector<double>& scores,
                    bool is_sigmoid, size_t i, size_t j) {
  if (!is_sigmoid) return scores[i] * ((i == j ? 1 : 0) - scores[j]);
  return i == j ? scores[i] / (1 + std::exp(logits[i])) : 0;
}

void BackwardRow(const GateBackwardRequest& request, const std::vector<double>& logits,
                 int64_t token, float* d_logits) {
  const GatingOptions& options = *request.options;
  const bool is_sigmoid = options.score_function == ScoreFunction::kSigmoid;
  const bool is_of_chosen = options.score_function == ScoreFunction::kSoftmaxOfChosen;
  const double max = *std::max_element(logits.begin(), logits.end());
  if (max == -kInfinity || (!is_sigmoid && max == kInfinity)) return;
  std::vector<double> seen = logits;  // by the scores: of the chosen, or of all
  std::vector<int64_t> slots;
  for (int64_t slot = token * options.top_k; slot < (token + 1) * options.top_k; ++slot) {
    if (request.expert_ids[static_cast<size_t>(slot)] >= 0) slots.push_back(slot);
  }
  const auto expert_of = [&](int64_t slot) {
    return static_cast<size_t>(request.expert_ids[static_cast<size_t>(slot)]);
  };
  if (is_of_chosen) {
    std::fill(seen.begin(), seen.end(), -kInfinity);
    for (const int64_t slot : slots) seen[expert_of(slot)] = logits[expert_of(slot)];
    if (*std::max_element(seen.begin(), seen.end()) == -kInfinity) return;
  }
  const std::vector<double> scores = Scores(seen, is_sigmoid);
  double sum = is_of_chosen ? 0 : static_cast<double>(options.renormalization_epsilon);
  for (const int64_t slot : slots) sum += scores[expert_of(slot)];
  const auto* d_weights = reinterpret_cast<const float*>(request.d_weights.row(token));
  for (size_t j = 0; j < logits.size(); ++j) {
    double total = 0;
    for (const int64_t a : slots) {    // a weight
      for (const int64_t b : slots) {  // a score that it depends on
        total += static_cast<double>(d_weights[a - token * options.top_k]) *
                 WeightBySlope(options, scores[expert_of(a)], sum, a == b) *
                 ScoreBySlope(seen, scores, is_sigmoid, expert_of(b), j);
      }
    }
    d_logits[j] = static_cast<float>(total * static_cast<double>(options.scale));
  }
}

}  // namespace

void GateBackward(const Context&, const GateBackwardRequest& request) {
  for (int64_t token = 0; token < request.logits.dim(0); ++token) {
    const auto* row = reinterpret_cast<const float*>(request.logits.row(token));
    std::vector<double> logits(row, row + request.logits.dim(1));
    for (double& logit : logits) logit = std::isnan(logit) ? -kInfinity : logit;
    auto* d_logits = reinterpret_cast<float*>(request.d_logits.mutable_row(token));
    std::fill_n(d_logits, logits.size(), 0.0f);
    BackwardRow(request, logits, token, d_logits);
  }
}

}  // namespace opst::ref
