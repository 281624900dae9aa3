// The gating of one token: scores, then selection, then weights. Batches and checks are in
// gating.cc, the selection in select_experts.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/gating/gating_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gating.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// softmax with an infinite maximum: the +inf logits share the weight equally.
void ShareAmongInfinite(const std::vector<float>& logits, std::vector<float>& scores) {
  const auto is_infinite = [](float x) { return x == kInfinity; };
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
    const bool is_masked = best == -kInfinity;
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

// e^(logit - largest chosen logit): shares of the chosen, whose scores may be too small for f32.
void PowersOfChosen(const std::vector<float>& logits, const int32_t* ids, size_t count,
                    float* powers) {
  float max = -kInfinity;
  for (size_t rank = 0; rank < count; ++rank) {
    max = std::max(max, logits[static_cast<size_t>(ids[rank])]);
  }
  for (size_t rank = 0; rank < count; ++rank) {
    const float logit = logits[static_cast<size_t>(ids[rank])];
    // Equal ones may be infinite.
    powers[rank] = logit == max && max > -kInfinity ? 1.0f
                   : logit == -kInfinity            ? 0.0f
                                                    : std::exp(logit - max);
  }
}

void ComputeWeights(const GatingOptions& options, const GatingScratch& scratch, const int32_t* ids,
                    size_t count, float* weights) {
  const bool is_softmax_of_chosen = options.score_function == ScoreFunction::kSoftmaxOfChosen;
  if (is_softmax_of_chosen) {
    PowersOfChosen(scratch.logits, ids, count, weights);
  } else {
    for (size_t rank = 0; rank < count; ++rank) {
      weights[rank] = scratch.scores[static_cast<size_t>(ids[rank])];
    }
  }
  float sum = 0;
  for (size_t rank = 0; rank < count; ++rank) sum += weights[rank];
  if (!is_softmax_of_chosen) sum += options.renormalization_epsilon;
  const bool divides = (options.renormalizes || is_softmax_of_chosen) && sum > 0;
  for (size_t rank = 0; rank < count; ++rank) {
    if (divides) weights[rank] /= sum;
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

bool GateRow(const float* logits, const GatingOptions& options, std::span<const float> load_factors,
             GatingScratch& scratch, const GatedRow& row) {
  const size_t n = scratch.logits.size();
  const auto top_k = static_cast<size_t>(options.top_k);
  const float max = CleanLogits(logits, n, scratch.logits.data());
  if (max == -kInfinity) {
    for (size_t rank = 0; rank < top_k; ++rank) row.ids[rank] = static_cast<int32_t>(rank);
    std::fill_n(row.weights, top_k, 0.0f);
    if (row.scores != nullptr) std::fill_n(row.scores, n, 0.0f);
    return false;
  }
  if (options.score_function == ScoreFunction::kSparsemixer) {
    SortKeys(scratch.logits.data(), n, scratch.keys.data());
    TopK(scratch.keys.data(), n, top_k, row.ids);
    SparsemixerWeights(options, scratch.logits, row.ids, row.weights);
    return true;
  }
  ComputeScores(options, max, scratch);
  if (row.scores != nullptr) std::copy(scratch.scores.begin(), scratch.scores.end(), row.scores);
  const size_t count = SelectExperts(options, load_factors, scratch, row.ids);
  ComputeWeights(options, scratch, row.ids, count, row.weights);
  std::fill(row.ids + count, row.ids + top_k, -1);
  std::fill(row.weights + count, row.weights + top_k, 0.0f);
  return true;
}

}  // namespace opst
