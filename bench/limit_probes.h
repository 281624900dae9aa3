// One sample each of the machine's limits: arithmetic rates and read bandwidth on one or all
// workers. Which limits exist and how often they are sampled is in limits.h and roofline.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_LIMIT_PROBES_H_
#define OPST_BENCH_LIMIT_PROBES_H_

#include <cstddef>
#include <cstdint>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "bench/limit_kernels.h"
#include "opst/context.h"

namespace opst::bench {

enum class Workers : uint8_t { kOne, kAll };
int NumWorkers(const Context& context, Workers workers);

// Runs body(worker, num_workers) on the calling thread or on the whole pool; returns microseconds.
double TimeOnWorkers(const Context& context, Workers workers,
                     FunctionRef<void(int worker, int num_workers)> body);

// What products are made of: f32 multiply-adds, pairs of 16-bit integers, or quads of 8-bit ones.
enum class Arithmetic : uint8_t { kFma, kPairDot, kQuadDot };

class ArithmeticProbe {
 public:
  // Finds the length of a sample of about 10 ms: long beside fork and join, short beside the drift
  // of a shared machine.
  ArithmeticProbe(const Context& context, Arithmetic arithmetic);
  // 10⁹ operations a second in registers.
  double Sample(Workers workers) const;

 private:
  const Context& context_;
  double (*run_)(size_t length, float* sink) noexcept;
  size_t length_ = 1000;
};

enum class PageKind : uint8_t { kHuge, kSmall };

// A buffer whose reading is timed. Larger than the last cache it measures memory, and evicts what
// the caches held before; smaller it measures the cache that holds it.
class ReadProbe {
 public:
  // Every worker touches the part that it reads later. Throws kOutOfMemory.
  ReadProbe(const Context& context, size_t bytes, PageKind pages);

  size_t bytes() const { return buffer_.size(); }
  // Share of the buffer that stands in 2 MB pages, which the kernel may decline or give unasked.
  double huge_fraction() const { return huge_fraction_; }

  // GB/s (10⁹ bytes) of as many passes as take about 2 ms, at least one. All workers read parts of
  // their own; one worker reads the first part only.
  double Sample(Workers workers, ReadOrder order) const;
  // The fastest order by the best of three samples each.
  ReadOrder FastestOrder(Workers workers) const;

 private:
  const Context& context_;
  size_t part_bytes_;  // of one worker
  AlignedBuffer buffer_;
  double huge_fraction_ = 0;
};

}  // namespace opst::bench

#endif  // OPST_BENCH_LIMIT_PROBES_H_
