// `opst bench routing`: gating and plan against plain routing. No experts are run.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_ROUTING_BENCH_H_
#define OPST_BENCH_ROUTING_BENCH_H_

#include <cstdint>
#include <vector>

#include "bench/layer_inputs.h"
#include "bench/report.h"
#include "bench/shape.h"
#include "opst/context.h"

namespace opst::bench {

struct RoutingBenchOptions {
  LayerShape shape = {};             // of it only E, k and renormalisation are used
  std::vector<int64_t> tokens = {};  // one row each
  RoutingKind routing = RoutingKind::kUniform;
  int runs = 7;
};

// Times Route (softmax, top-k, counting sort, both index maps) on logits that stand in the cache,
// as they do after the router's product; plans are first compared with the plain routing's.
//   GB/s  logits read and plan written / time, beside the read bandwidth at that size
// Errors: WrongResult for plans that differ; kInvalidArgument for T outside 1 … 2³¹ / k.
Report RunRoutingBench(const Context& context, const RoutingBenchOptions& options,
                       const ProgressFn& on_progress = {});

}  // namespace opst::bench

#endif  // OPST_BENCH_ROUTING_BENCH_H_
