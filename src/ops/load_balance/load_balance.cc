// The load tracker and the loss-free bias step. Both are a few loops over E; there is one
// implementation.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/load_balance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include "base/check.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "load_balance";

void CheckCounts(std::span<const int64_t> counts, size_t num_experts) {
  OPST_CHECK_ARG(counts.size() == num_experts, kOp, "expert_counts must have one value per expert",
                 counts.size(), " for ", num_experts, " experts");
  int64_t sum = 0;
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    const int64_t count = counts[expert];
    OPST_CHECK_ARG(count >= 0 && count <= std::numeric_limits<int64_t>::max() - sum, kOp,
                   "expert_counts must not be negative, nor their sum 2^63", count, " at [", expert,
                   "]");
    sum += count;
  }
}

}  // namespace

LoadTracker::LoadTracker(int64_t num_experts, LoadTrackerOptions options) : options_(options) {
  OPST_CHECK_ARG(num_experts >= 1, kOp, "num_experts must be positive", num_experts);
  OPST_CHECK_ARG(options.decay >= 0 && options.decay < 1, kOp,
                 "decay must be at least 0 and below 1", options.decay);
  load_.resize(static_cast<size_t>(num_experts), 0.0);
}

void LoadTracker::Observe(std::span<const int64_t> expert_counts) {
  CheckCounts(expert_counts, load_.size());
  const std::lock_guard lock(mutex_);
  for (size_t expert = 0; expert < load_.size(); ++expert) {
    load_[expert] = options_.decay * load_[expert] +
                    (1 - options_.decay) * static_cast<double>(expert_counts[expert]);
  }
}

std::vector<float> LoadTracker::Utilization() const {
  const std::vector<double> load = Save();
  const double mean =
      std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(load.size());
  std::vector<float> utilization(load.size(), 1.0f);
  if (!(mean > 0)) return utilization;
  std::transform(load.begin(), load.end(), utilization.begin(),
                 [&](double value) { return static_cast<float>(value / mean); });
  return utilization;
}

std::vector<double> LoadTracker::Save() const {
  const std::lock_guard lock(mutex_);
  return load_;
}

void LoadTracker::Restore(std::span<const double> load) {
  OPST_CHECK_ARG(load.size() == load_.size(), kOp, "a saved load must have one value per expert",
                 load.size(), " for ", load_.size(), " experts");
  for (size_t expert = 0; expert < load.size(); ++expert) {
    OPST_CHECK_ARG(std::isfinite(load[expert]) && load[expert] >= 0, kOp,
                   "a saved load must be finite and not negative", load[expert], " at [", expert,
                   "]");
  }
  const std::lock_guard lock(mutex_);
  std::copy(load.begin(), load.end(), load_.begin());
}

void UpdateSelectionBias(std::span<const int64_t> expert_counts, const BiasUpdateOptions& options,
                         std::span<float> bias) {
  OPST_CHECK_ARG(!bias.empty(), kOp, "num_experts must be positive", bias.size());
  CheckCounts(expert_counts, bias.size());
  OPST_CHECK_ARG(std::isfinite(options.rate) && options.rate >= 0, kOp,
                 "rate must be finite and not negative", options.rate);
  // count < mean exactly: with sum = q · E + r, a count is below the mean if it is at most q, and
  // not exactly the mean.
  const auto num_experts = static_cast<int64_t>(bias.size());
  const int64_t sum = std::accumulate(expert_counts.begin(), expert_counts.end(), int64_t{0});
  const int64_t quotient = sum / num_experts;
  const bool is_exact = sum % num_experts == 0;
  const auto sign = [&](int64_t count) {
    if (count == quotient) return is_exact ? 0 : 1;
    return count < quotient ? 1 : -1;
  };
  int64_t sum_of_signs = 0;
  for (const int64_t count : expert_counts) sum_of_signs += sign(count);
  const double mean =
      options.centers ? static_cast<double>(sum_of_signs) / static_cast<double>(num_experts) : 0;
  for (size_t expert = 0; expert < bias.size(); ++expert) {
    const double step = static_cast<double>(options.rate) *
                        (static_cast<double>(sign(expert_counts[expert])) - mean);
    bias[expert] = static_cast<float>(static_cast<double>(bias[expert]) + step);
  }
}

}  // namespace opst
