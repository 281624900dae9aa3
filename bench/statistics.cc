// Sorts the samples and reads off what is asked.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.h"

#include <algorithm>
#include <utility>

namespace opst::bench {

Summary Summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const size_t n = samples.size();
  return {.median = (samples[(n - 1) / 2] + samples[n / 2]) / 2,
          .min = samples.front(),
          .max = samples.back(),
          .runs = static_cast<int>(n)};
}

double Median(std::vector<double> samples) { return Summarize(std::move(samples)).median; }

}  // namespace opst::bench
