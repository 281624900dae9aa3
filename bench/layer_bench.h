// `opst bench layer`: the fused MoE layer against the plain loop and the machine's limits.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_LAYER_BENCH_H_
#define OPST_BENCH_LAYER_BENCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/layer_inputs.h"
#include "bench/report.h"
#include "bench/shape.h"
#include "opst/context.h"
#include "opst/packed_weights.h"

namespace opst::bench {

struct LayerBenchOptions {
  LayerShape shape = {};
  std::vector<int64_t> tokens = {};  // one row each; empty = the shape's
  WeightType type = WeightFormat::kF32;
  RoutingKind routing = RoutingKind::kUniform;
  bool runs_plain_loop = true;
  int runs = 7;
  // Of the plain loop, per row: it stops after its first run beyond this.
  double most_plain_seconds = 20;
};

// Times route + moe_ffn on f32 tokens. Each run routes other tokens to other experts. Before
// timing, rows are checked against f64. When the experts of all the model's layers do not fit the
// last cache, caches are evicted before each sample: then a model would read them from memory too.
// Figures per row, from pairs (ours, plain loop) that are run in turn:
//   GFLOP/s  6·T·k·H·F / time     GB/s  bytes of the distinct experts used / time
//   % of FMA peak, % of roofline = max(bytes / bandwidth, flop / peak) / time; each run is compared
//   with the peak measured just before it, with the row's median bandwidth
// Errors: WrongResult; kInvalidArgument for T outside 1 … 2³¹ / k; kOutOfMemory before any
// work when the shape does not fit the free memory.
Report RunLayerBench(const Context& context, const LayerBenchOptions& options,
                     const ProgressFn& on_progress = {});

}  // namespace opst::bench

#endif  // OPST_BENCH_LAYER_BENCH_H_
