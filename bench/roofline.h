// The limits that a benchmark row is measured against, sampled between its own runs, so that drift
// of a shared machine moves both. The full list of limits is in limits.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_ROOFLINE_H_
#define OPST_BENCH_ROOFLINE_H_

#include <cstddef>
#include <vector>

#include "bench/interleaved_runs.h"
#include "bench/limit_probes.h"
#include "bench/limits.h"
#include "bench/machine.h"

namespace opst::bench {

struct RooflineOptions {
  // All weights that a model walks through before it needs the first ones again. When they fit the
  // last cache they are read from there, else from memory.
  size_t model_bytes = 0;
  // The part that the benchmark reads again and again: the size at which a cache is measured.
  size_t benchmark_bytes = 0;
  // Bytes that must stay free for the benchmark itself.
  size_t reserved_bytes = 0;
  PageKind pages = PageKind::kHuge;
  // What the products are made of; the multiply-add is measured beside it in any case.
  Arithmetic arithmetic = Arithmetic::kFma;
};

class Roofline {
 public:
  // Throws kOutOfMemory when no buffer beyond the cache fits beside the reserved bytes.
  Roofline(const Context& context, const Machine& machine, const RooflineOptions& options);

  // Whether the model's weights are larger than the last cache. Then SampleRead also evicts the
  // caches.
  bool reads_memory() const { return reads_memory_; }

  void SampleArithmetic();
  void SampleRead() { read_.push_back(read_probe_.Sample(Workers::kAll, order_)); }

  // Medians of the samples since the last StartRow.
  double fma_gflops() const;
  double read_gb_per_s() const;
  void StartRow();

  // The multiply-add sample just before the given run of this row: on a shared machine the peak
  // halves and doubles within a minute.
  double fma_gflops(size_t run) const { return fma_[row_fma_ + run]; }
  // The time in us below which the machine cannot move the bytes and do the flop of a run:
  // max(bytes / bandwidth, operations / peak of their arithmetic in that run).
  double BoundUs(size_t run, double bytes, double operations) const;

  // All samples: "fma_f32", "pair_dot_int16" or "quad_dot_int8" if products are made of that, and
  // "read_memory_2mb_pages" or "read_cache".
  std::vector<Limit> Limits() const;

 private:
  const Context& context_;
  bool reads_memory_;
  PageKind pages_;
  Arithmetic arithmetic_;
  ArithmeticProbe fma_probe_;
  ArithmeticProbe probe_;  // of arithmetic_
  ReadProbe read_probe_;
  ReadOrder order_;
  std::vector<double> fma_;
  std::vector<double> products_;  // of arithmetic_; empty if that is the multiply-add
  std::vector<double> read_;
  size_t row_fma_ = 0;  // first sample of the row
  size_t row_read_ = 0;
};

// Samples the limits between `runs` runs, in a row of its own. When weights are read from memory,
// every sample finds the caches evicted and is one call; else caches are warm and short calls are
// repeated. `roofline` must outlive the result.
InterleavingOptions SamplingTurns(Roofline& roofline, size_t runs);

// "limits in this run: multiply-add 213 GFLOP/s, read 21.3 GB/s (memory, 2 MB pages)"
std::string Line(const std::vector<Limit>& limits);

}  // namespace opst::bench

#endif  // OPST_BENCH_ROOFLINE_H_
