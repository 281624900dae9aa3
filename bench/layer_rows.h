// The measurements of `opst bench layer`, one row per number of tokens. Tables and JSON are made in
// layer_bench.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_LAYER_ROWS_H_
#define OPST_BENCH_LAYER_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/layer_bench.h"
#include "bench/layer_inputs.h"
#include "bench/plain_routing.h"
#include "bench/roofline.h"
#include "bench/statistics.h"
#include "opst/ops/moe_ffn.h"
#include "opst/routing_plan.h"

namespace opst::bench {

struct LayerRow {
  int64_t num_tokens = 0;
  double distinct_experts = 0;  // median over runs, as all that follows
  double weight_bytes = 0;      // of the distinct experts
  Summary us = {};
  Summary plain_us = {};  // runs 0 = not run
  Summary ratio = {};     // plain loop / ours, pair by pair
  double route_us = 0;    // the part of us that is routing
  double gflops = 0;
  double gb_per_s = 0;
  double fma_gflops = 0;  // limits between these runs
  double read_gb_per_s = 0;
  Summary fma_fraction = {};  // run by run, of the peak just before it
  Summary roofline = {};
  double max_error = 0;  // of the checked rows, as a fraction of the rounding bound
  double plain_max_error = 0;
};

// Weights of a shape, and what is run on them.
class LayerRunner {
 public:
  // Makes the weights: the expensive part.
  LayerRunner(const Context& context, const LayerBenchOptions& options);

  // Checks, then times. `roofline` is sampled between the runs.
  LayerRow MeasureRow(int64_t num_tokens, Roofline& roofline) const;

 private:
  struct Tokens;  // inputs and outputs of one row

  RoutingPlan RouteOurs(const Tokens& tokens, size_t run) const;
  RoutingPlan RunOurs(const Tokens& tokens, size_t run, std::vector<double>* route_us) const;
  PlainRouting RunPlain(Tokens& tokens, size_t run) const;
  void Check(Tokens& tokens, LayerRow& row) const;
  std::vector<double> CountExperts(const Tokens& tokens) const;
  void CompareWithLimits(const std::vector<double>& us, const std::vector<double>& distinct,
                         const Roofline& roofline, LayerRow& row) const;

  const Context& context_;
  const LayerBenchOptions& options_;
  std::unique_ptr<PlainExperts> plain_;  // null = the plain loop is not run
  ExpertWeights weights_;
};

// What a LayerRunner and its largest row allocate.
struct LayerMemory {
  size_t weights_bytes = 0;
  size_t packing_bytes = 0;  // only while the weights are made
  size_t row_bytes = 0;      // only while a row is measured
  size_t peak_bytes() const { return weights_bytes + std::max(packing_bytes, row_bytes); }
};
LayerMemory PlanMemory(const Context& context, const LayerBenchOptions& options);

}  // namespace opst::bench

#endif  // OPST_BENCH_LAYER_ROWS_H_
