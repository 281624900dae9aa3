// Median and spread of repeated measurements; no tests of significance.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_STATISTICS_H_
#define OPST_BENCH_STATISTICS_H_

#include <vector>

namespace opst::bench {

struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
  int runs = 0;  // 0 = not measured
};

Summary Summarize(std::vector<double> samples);

// The median alone; 0 without samples.
double Median(std::vector<double> samples);

}  // namespace opst::bench

#endif  // OPST_BENCH_STATISTICS_H_
