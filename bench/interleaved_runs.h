// Runs contestants in turn (ours, plain, ours, plain, …), so that each pair of samples saw the same
// state of a shared machine. What a contestant computes is its own business.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_INTERLEAVED_RUNS_H_
#define OPST_BENCH_INTERLEAVED_RUNS_H_

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "bench/statistics.h"

namespace opst::bench {

struct Contestant {
  // One call with the inputs of run `run`.
  std::function<void(size_t run)> call;
  // After this time in all it runs no more; it always runs once.
  double most_total_us = std::numeric_limits<double>::infinity();
};

struct InterleavingOptions {
  size_t runs = 7;
  // Whether a sample of a short call is the mean of several: right when the caches are to be warm.
  bool repeats_short_calls = false;
  // Before the calls of one run, and before each sample: to sample limits, to evict caches.
  std::function<void()> before_run = [] {};
  std::function<void()> before_sample = [] {};
};

// samples[contestant][run] in us per call; a contestant that was stopped has fewer.
std::vector<std::vector<double>> RunInterleaved(std::span<const Contestant> contestants,
                                                const InterleavingOptions& options);

// Of other / ours, pair by pair.
Summary SummarizeRatio(const std::vector<double>& ours, const std::vector<double>& other);

}  // namespace opst::bench

#endif  // OPST_BENCH_INTERLEAVED_RUNS_H_
