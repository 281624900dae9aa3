// The measured limits of this machine: the 100 % of every other figure. No layer is run here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_LIMITS_H_
#define OPST_BENCH_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/machine.h"
#include "bench/report.h"
#include "bench/statistics.h"
#include "opst/context.h"

namespace opst::bench {

struct Limit {
  std::string name;   // in JSON: "fma_f32"
  std::string label;  // for people: "multiply-add f32, in registers"
  int threads = 1;
  std::string unit;  // "GFLOP/s", "GB/s", "us"
  Summary value;
  std::string note = {};  // "four streams, 100 % in 2 MB pages"
};

struct LimitsOptions {
  int runs = 5;
  // Of the buffer that measures memory; 0 = 2 GiB or four times the last cache, whichever is more,
  // but at most a third of the free memory.
  size_t read_bytes = 0;
};

// Throws kOutOfMemory when not even twice the last cache is free.
std::vector<Limit> MeasureLimits(const Context& context, const Machine& machine,
                                 const LimitsOptions& options, const ProgressFn& on_progress);

// MeasureLimits as the command `opst bench limits` shows it.
Report RunLimitsBench(const Context& context, const LimitsOptions& options,
                      const ProgressFn& on_progress = {});

}  // namespace opst::bench

#endif  // OPST_BENCH_LIMITS_H_
