// Bias, penalties, temperature, top-k, top-p and min-p, without sorting the whole vocabulary.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "sampling";
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int32_t ArgMax(std::span<const float> logits) {
  int32_t best = -1;
  float highest = -kInfinity;
  for (size_t token = 0; token < logits.size(); ++token) {
    if (logits[token] > highest) {  // false for NaN
      highest = logits[token];
      best = static_cast<int32_t>(token);
    }
  }
  if (best >= 0) return best;
  const bool has_nan =
      std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  OPST_CHECK_IO(!has_nan, kWhere, "the model's logits must be numbers",
                "NaN; are the weights damaged?");
  OPST_CHECK_ARG(best >= 0, kWhere, "the bias must leave a token", "none");
  return best;
}

void CheckPenalties(const SamplingOptions& options) {
  OPST_CHECK_ARG(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
                 kWhere, "repetition_penalty must be above 0 and finite",
                 options.repetition_penalty);
  OPST_CHECK_ARG(std::isfinite(options.presence_penalty), kWhere, "presence_penalty must be finite",
                 options.presence_penalty);
  OPST_CHECK_ARG(std::isfinite(options.frequency_penalty), kWhere,
                 "frequency_penalty must be finite", options.frequency_penalty);
}

}  // namespace

// More likely first, ties to the lower id.
bool Sampler::IsBefore(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

Sampler::Sampler(const SamplingOptions& options, int64_t vocab_size)
    : options_(options), random_(options.seed) {
  OPST_CHECK_ARG(options.temperature >= 0 && std::isfinite(options.temperature), kWhere,
                 "temperature must be finite and not negative", options.temperature);
  OPST_CHECK_ARG(options.top_k >= 0, kWhere, "top_k must not be negative", options.top_k);
  OPST_CHECK_ARG(options.top_p > 0 && options.top_p <= 1, kWhere, "top_p must be in (0, 1]",
                 options.top_p);
  OPST_CHECK_ARG(options.min_p >= 0 && options.min_p <= 1, kWhere, "min_p must be in [0, 1]",
                 options.min_p);
  CheckPenalties(options);
  for (const LogitBias& bias : options.logit_bias) {
    OPST_CHECK_ARG(bias.token >= 0 && bias.token < vocab_size, kWhere,
                   Concat("the token of a logit bias must be 0..", vocab_size - 1), bias.token);
    OPST_CHECK_ARG(bias.bias < kInfinity, kWhere, "a logit bias must be a number or -inf",
                   bias.bias, " for token ", bias.token);
  }
}

void Sampler::SetPrompt(std::span<const int32_t> tokens) {
  if (options_.repetition_penalty == 1) return;
  for (const int32_t token : tokens) counts_.try_emplace(token, 0);
}

void Sampler::Adjust(std::span<float> logits) const {
  for (const LogitBias& bias : options_.logit_bias) {
    logits[static_cast<size_t>(bias.token)] += bias.bias;
  }
  const float repetition = options_.repetition_penalty;
  for (const auto& [token, count] : counts_) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if (count == 0) continue;
    logit -= options_.presence_penalty + options_.frequency_penalty * static_cast<float>(count);
  }
}

// 53 random bits as a fraction: the standard distributions differ between libraries.
double Sampler::NextUniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

// Every token that can be drawn, the k most likely ones with top-k.
void Sampler::Candidates(std::span<const float> logits, float max) {
  candidates_.clear();
  for (size_t token = 0; token < logits.size(); ++token) {
    if (!(logits[token] > -kInfinity)) continue;  // NaN too
    candidates_.push_back(
        {logits[token],
         std::exp((static_cast<double>(logits[token]) - static_cast<double>(max)) /
                  static_cast<double>(options_.temperature)),
         static_cast<int32_t>(token)});
  }
  if (options_.top_k == 0 || options_.top_k >= static_cast<int64_t>(candidates_.size())) return;
  const auto kept = candidates_.begin() + options_.top_k;
  std::partial_sort(candidates_.begin(), kept, candidates_.end(), IsBefore);
  candidates_.erase(kept, candidates_.end());
}

// Sorts as many candidates as top-p and min-p need, most likely first, and returns how many stay.
size_t Sampler::KeepMostLikely() {
  double sum = 0;
  for (const Candidate& candidate : candidates_) sum += candidate.power;
  const double wanted = static_cast<double>(options_.top_p) * sum;
  const auto least = static_cast<double>(options_.min_p);  // the most likely one has power 1
  double kept_sum = 0;
  size_t kept = 0;
  size_t sorted = 0;
  while (kept < candidates_.size()) {
    if (kept == sorted) {  // 64 at first: nearly always enough
      const size_t count = std::min(std::max<size_t>(64, 8 * sorted), candidates_.size());
      std::partial_sort(candidates_.begin() + static_cast<std::ptrdiff_t>(sorted),
                        candidates_.begin() + static_cast<std::ptrdiff_t>(count), candidates_.end(),
                        IsBefore);
      sorted = count;
    }
    if (kept > 0 && (kept_sum >= wanted || candidates_[kept].power < least)) break;
    kept_sum += candidates_[kept++].power;
  }
  return kept;
}

int32_t Sampler::Choose(std::span<const float> logits) {
  const int32_t best = ArgMax(logits);
  if (options_.temperature == 0) return best;
  const float max = logits[static_cast<size_t>(best)];
  if (std::isinf(max)) return best;
  Candidates(logits, max);
  size_t kept = candidates_.size();
  if (options_.top_p < 1 || options_.min_p > 0) kept = KeepMostLikely();
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) sum += candidates_[i].power;
  double draw = NextUniform() * sum;
  for (size_t i = 0; i + 1 < kept; ++i) {
    draw -= candidates_[i].power;
    if (draw < 0) return candidates_[i].token;
  }
  return candidates_[kept - 1].token;
}

int32_t Sampler::Next(std::span<float> logits) {
  Adjust(logits);
  const int32_t token = Choose(logits);
  ++counts_[token];
  return token;
}

}  // namespace opst
