// The loop over runs and contestants.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/interleaved_runs.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/stopwatch.h"

namespace opst::bench {
namespace {

// A clock of some tens of nanoseconds measures this to a ten-thousandth.
constexpr double kShortestSampleUs = 2'000;

double TimeCalls(const Contestant& contestant, size_t run, int64_t calls) {
  const Stopwatch watch;
  for (int64_t i = 0; i < calls; ++i) contestant.call(run);
  return watch.elapsed_us() / static_cast<double>(calls);
}

// Of one sample; the trial call also warms the contestant up.
int64_t CallsPerSample(const Contestant& contestant) {
  const double us = TimeCalls(contestant, 0, 1);
  return std::clamp<int64_t>(static_cast<int64_t>(kShortestSampleUs / std::max(us, 0.1)), 1,
                             10'000);
}

}  // namespace

std::vector<std::vector<double>> RunInterleaved(std::span<const Contestant> contestants,
                                                const InterleavingOptions& options) {
  std::vector<std::vector<double>> samples(contestants.size());
  std::vector<double> total_us(contestants.size(), 0);
  std::vector<int64_t> calls(contestants.size(), 1);
  for (size_t c = 0; options.repeats_short_calls && c < contestants.size(); ++c) {
    calls[c] = CallsPerSample(contestants[c]);
  }
  for (size_t run = 0; run < options.runs; ++run) {
    options.before_run();
    for (size_t c = 0; c < contestants.size(); ++c) {
      if (run > 0 && total_us[c] >= contestants[c].most_total_us) continue;
      options.before_sample();
      samples[c].push_back(TimeCalls(contestants[c], run, calls[c]));
      total_us[c] += samples[c].back() * static_cast<double>(calls[c]);
    }
  }
  return samples;
}

Summary SummarizeRatio(const std::vector<double>& ours, const std::vector<double>& other) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(ours.size(), other.size()); ++i) {
    ratios.push_back(other[i] / ours[i]);
  }
  return Summarize(std::move(ratios));
}

}  // namespace opst::bench
