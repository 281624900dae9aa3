// Temperature, top-k and top-p over a sorted list of candidates.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "sampling";

struct Candidate {
  float logit;
  int32_t token;
};

// More likely first, ties to the lower id.
bool IsBefore(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

int32_t ArgMax(std::span<const float> logits) {
  int32_t best = -1;
  float highest = -std::numeric_limits<float>::infinity();
  for (size_t token = 0; token < logits.size(); ++token) {
    if (logits[token] > highest) {  // false for NaN
      highest = logits[token];
      best = static_cast<int32_t>(token);
    }
  }
  OPST_CHECK_ARG(best >= 0, kWhere, "the logits must hold a number above -inf",
                 "none; are the weights damaged?");
  return best;
}

// The `count` most likely candidates in order, all of them for 0.
std::vector<Candidate> SortedCandidates(std::span<const float> logits, int64_t count) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (size_t token = 0; token < logits.size(); ++token) {
    if (std::isnan(logits[token])) continue;
    candidates.push_back({logits[token], static_cast<int32_t>(token)});
  }
  const auto all = static_cast<int64_t>(candidates.size());
  const auto kept = candidates.begin() + (count == 0 ? all : std::min(count, all));
  std::partial_sort(candidates.begin(), kept, candidates.end(), IsBefore);
  candidates.erase(kept, candidates.end());
  return candidates;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {
  OPST_CHECK_ARG(options.temperature >= 0 && std::isfinite(options.temperature), kWhere,
                 "temperature must be finite and not negative", options.temperature);
  OPST_CHECK_ARG(options.top_k >= 0, kWhere, "top_k must not be negative", options.top_k);
  OPST_CHECK_ARG(options.top_p > 0 && options.top_p <= 1, kWhere, "top_p must be in (0, 1]",
                 options.top_p);
}

// 53 random bits as a fraction: the standard distributions differ between libraries.
double Sampler::NextUniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

int32_t Sampler::Next(std::span<const float> logits) {
  const int32_t best = ArgMax(logits);
  if (options_.temperature == 0) return best;
  const float max = logits[static_cast<size_t>(best)];
  if (std::isinf(max)) return best;
  const std::vector<Candidate> candidates = SortedCandidates(logits, options_.top_k);
  std::vector<double> powers;
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    powers.push_back(std::exp(static_cast<double>(candidate.logit - max) /
                              static_cast<double>(options_.temperature)));
    sum += powers.back();
  }
  // The fewest candidates whose share reaches top_p, at least one.
  size_t kept = 0;
  double kept_sum = 0;
  do {
    kept_sum += powers[kept++];
  } while (kept < powers.size() && kept_sum < static_cast<double>(options_.top_p) * sum);
  double draw = NextUniform() * kept_sum;
  for (size_t i = 0; i + 1 < kept; ++i) {
    draw -= powers[i];
    if (draw < 0) return candidates[i].token;
  }
  return candidates[kept - 1].token;
}

}  // namespace opst
