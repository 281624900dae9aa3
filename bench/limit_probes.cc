// Clocks and threads around the limit loops.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/limit_probes.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/free_memory.h"
#include "base/stopwatch.h"

namespace opst::bench {
namespace {

constexpr double kArithmeticSampleUs = 10'000;
constexpr double kReadSampleUs = 2'000;
constexpr size_t kReadStep = 256;  // SumBytes reads multiples of it

// Results go here, so that the loops that make them stay.
std::atomic<uint64_t> sink{0};

using ChainsFn = double (*)(size_t length, float* sink) noexcept;
ChainsFn ChainsOf(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kFma) return FmaChains;
  return arithmetic == Arithmetic::kPairDot ? PairDotChains : QuadDotChains;
}

size_t PartBytes(const Context& context, size_t bytes) {
  const size_t part = bytes / static_cast<size_t>(context.num_threads());
  return std::max(part / kReadStep * kReadStep, kReadStep);
}

}  // namespace

int NumWorkers(const Context& context, Workers workers) {
  return workers == Workers::kOne ? 1 : context.num_threads();
}

double TimeOnWorkers(const Context& context, Workers workers, FunctionRef<void(int, int)> body) {
  const Stopwatch watch;
  if (workers == Workers::kOne) {
    body(0, 1);
  } else {
    context.pool().Run(body);
  }
  return watch.elapsed_us();
}

ArithmeticProbe::ArithmeticProbe(const Context& context, Arithmetic arithmetic)
    : context_(context), run_(ChainsOf(arithmetic)) {
  float sum = 0;
  double us = 0;
  while (true) {
    const Stopwatch watch;
    run_(length_, &sum);
    us = watch.elapsed_us();
    if (us >= kArithmeticSampleUs / 10) break;
    length_ *= 4;
  }
  length_ = static_cast<size_t>(static_cast<double>(length_) * kArithmeticSampleUs / us) + 1;
  sink += static_cast<uint64_t>(sum);
}

double ArithmeticProbe::Sample(Workers workers) const {
  std::atomic<double> flop{0};
  const double us = TimeOnWorkers(context_, workers, [&](int, int) {
    float sum = 0;
    flop += run_(length_, &sum);
    sink += static_cast<uint64_t>(sum);
  });
  return flop / us / 1e3;
}

ReadProbe::ReadProbe(const Context& context, size_t bytes, PageKind pages)
    : context_(context),
      part_bytes_(PartBytes(context, bytes)),
      buffer_(part_bytes_ * static_cast<size_t>(context.num_threads()),
              {.is_zeroed = false, .use_huge_pages = pages == PageKind::kHuge}) {
  const size_t huge_before = HugePageBytes();
  // Without this a kernel whose default is 2 MB pages would use them for both kinds.
  if (pages == PageKind::kSmall && buffer_.size() >= kHugePageBytes) {
    madvise(buffer_.data(), buffer_.size(), MADV_NOHUGEPAGE);
  }
  const int num_parts = context.num_threads();
  context.pool().Run([&](int worker, int num_workers) {
    for (int part = worker; part < num_parts; part += num_workers) {
      std::memset(buffer_.data() + static_cast<size_t>(part) * part_bytes_, part + 1, part_bytes_);
    }
  });
  const size_t huge_after = HugePageBytes();
  huge_fraction_ =
      std::min(1.0, static_cast<double>(huge_after - std::min(huge_after, huge_before)) /
                        static_cast<double>(buffer_.size()));
}

double ReadProbe::Sample(Workers workers, ReadOrder order) const {
  const auto read = [&](int worker, int) {
    const std::byte* part = buffer_.data() + static_cast<size_t>(worker) * part_bytes_;
    sink += SumBytes(order, part, part_bytes_);
  };
  const double bytes_per_pass =
      static_cast<double>(part_bytes_) * static_cast<double>(NumWorkers(context_, workers));
  const double first_us = TimeOnWorkers(context_, workers, read);
  if (first_us >= kReadSampleUs) return bytes_per_pass / first_us / 1e3;
  // The first pass of a small buffer only brought it into the cache.
  const int passes = static_cast<int>(kReadSampleUs / std::max(first_us, 0.01)) + 1;
  const double us = TimeOnWorkers(context_, workers, [&](int worker, int num_workers) {
    for (int pass = 0; pass < passes; ++pass) read(worker, num_workers);
  });
  return bytes_per_pass * passes / us / 1e3;
}

ReadOrder ReadProbe::FastestOrder(Workers workers) const {
  ReadOrder fastest = ReadOrder::kOneStream;
  double most = 0;
  for (const ReadOrder order : kReadOrders) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      const double speed = Sample(workers, order);
      if (speed <= most) continue;
      most = speed;
      fastest = order;
    }
  }
  return fastest;
}

}  // namespace opst::bench
