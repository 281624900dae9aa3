// `opst bench ops`: every operator by itself, beside the limits of the machine.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_OPS_BENCH_H_
#define OPST_BENCH_OPS_BENCH_H_

#include <cstdint>

#include "bench/report.h"
#include "bench/shape.h"
#include "opst/context.h"

namespace opst::bench {

// At most so many of a shape's experts are made, and slots of a token used: training keeps four
// copies of the weights.
constexpr int64_t kMostBenchedExperts = 8;

struct OpsBenchOptions {
  LayerShape shape = {};
  int64_t num_tokens = 256;
  int runs = 7;
};

// Times every operator of f32 rows and weights in turn with samples of the limits.
//   of roofline  max(bytes / read bandwidth, flop / multiply-add peak) / time
// On four tokens each result is first compared with that of one thread and, where there is one, the
// reference implementation. Errors: WrongResult; kInvalidArgument for T outside 1 … 2³¹ / k;
// kOutOfMemory.
Report RunOpsBench(const Context& context, const OpsBenchOptions& options,
                   const ProgressFn& on_progress = {});

}  // namespace opst::bench

#endif  // OPST_BENCH_OPS_BENCH_H_
