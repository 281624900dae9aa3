// Chooses the buffer to read and keeps the samples.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/roofline.h"

#include <algorithm>

#include "base/check.h"
#include "base/free_memory.h"
#include "base/strings.h"
#include "bench/text_table.h"

namespace opst::bench {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;
constexpr size_t kUnknownCacheBytes = 32 * kMegabyte;
constexpr size_t kMostReadBytes = 2048 * kMegabyte;
constexpr size_t kLeastReadBytes = 4096;

size_t CacheBytes(const Machine& machine) {
  const size_t bytes = std::max(machine.l3_bytes, machine.l2_bytes);
  return bytes == 0 ? kUnknownCacheBytes : bytes;
}

size_t ProbeBytes(const Machine& machine, const RooflineOptions& options) {
  const size_t cache = CacheBytes(machine);
  if (options.model_bytes <= cache) return std::max(options.benchmark_bytes, kLeastReadBytes);
  // Twice the cache evicts it; four times leaves little that was still cached in the average.
  const size_t least = 2 * cache;
  RequireFreeMemory("bench", "a buffer larger than the caches, beside the benchmark's own memory,",
                    options.reserved_bytes + least, "close other programs or take a smaller shape");
  const size_t free_bytes = FreeMemoryBytes() - options.reserved_bytes;
  return std::clamp(free_bytes / 2, least, std::max(least, std::min(4 * cache, kMostReadBytes)));
}

std::vector<double> From(const std::vector<double>& samples, size_t first) {
  return {samples.begin() + static_cast<std::ptrdiff_t>(first), samples.end()};
}

}  // namespace

Roofline::Roofline(const Context& context, const Machine& machine, const RooflineOptions& options)
    : context_(context),
      reads_memory_(options.model_bytes > CacheBytes(machine)),
      pages_(options.pages),
      arithmetic_(options.arithmetic),
      fma_probe_(context, Arithmetic::kFma),
      probe_(context, options.arithmetic),
      read_probe_(context, ProbeBytes(machine, options), options.pages),
      order_(read_probe_.FastestOrder(Workers::kAll)) {}

void Roofline::SampleArithmetic() {
  fma_.push_back(fma_probe_.Sample(Workers::kAll));
  if (arithmetic_ != Arithmetic::kFma) products_.push_back(probe_.Sample(Workers::kAll));
}

void Roofline::StartRow() {
  row_fma_ = fma_.size();
  row_read_ = read_.size();
}

double Roofline::fma_gflops() const { return Median(From(fma_, row_fma_)); }
double Roofline::read_gb_per_s() const { return Median(From(read_, row_read_)); }

double Roofline::BoundUs(size_t run, double bytes, double operations) const {
  const std::vector<double>& peaks = arithmetic_ == Arithmetic::kFma ? fma_ : products_;
  return std::max(bytes / (read_gb_per_s() * 1e3), operations / (peaks[row_fma_ + run] * 1e3));
}

std::vector<Limit> Roofline::Limits() const {
  const int threads = context_.num_threads();
  const bool is_huge = pages_ == PageKind::kHuge;
  std::string label = Concat("read cache, ", FormatBytes(read_probe_.bytes()));
  if (reads_memory_) label = Concat("read memory, ", is_huge ? "2 MB" : "4 KB", " pages");
  std::string name = "read_cache";
  if (reads_memory_) name = is_huge ? "read_memory_2mb_pages" : "read_memory_4kb_pages";
  std::string note = Concat(Name(order_), ", ", FormatBytes(read_probe_.bytes()));
  if (read_probe_.bytes() >= kHugePageBytes) {
    note += Concat(", ", Percent(read_probe_.huge_fraction()), " in 2 MB pages");
  }
  std::vector<Limit> limits{{"fma_f32", "multiply-add", threads, "GFLOP/s", Summarize(fma_), ""}};
  if (!products_.empty()) {
    const bool is_pairs = arithmetic_ == Arithmetic::kPairDot;
    limits.push_back({is_pairs ? "pair_dot_int16" : "quad_dot_int8",
                      is_pairs ? "int16 pairs" : "int8 quads", threads, "GOP/s",
                      Summarize(products_), ""});
  }
  limits.push_back({name, label, threads, "GB/s", Summarize(read_), note});
  return limits;
}

InterleavingOptions SamplingTurns(Roofline& roofline, size_t runs) {
  roofline.StartRow();
  InterleavingOptions turns{.runs = runs};
  if (roofline.reads_memory()) {
    turns.before_run = [&] { roofline.SampleArithmetic(); };
    turns.before_sample = [&] { roofline.SampleRead(); };
  } else {
    turns.repeats_short_calls = true;
    turns.before_run = [&] {
      roofline.SampleArithmetic();
      roofline.SampleRead();
    };
  }
  return turns;
}

std::string Line(const std::vector<Limit>& limits) {
  std::string line;
  for (const Limit& limit : limits) {
    line += Concat(line.empty() ? "limits in this run: " : "; ", limit.label, " ",
                   Digits(limit.value.median), " ", limit.unit, " (", Spread(limit.value), ")");
  }
  return line;
}

}  // namespace opst::bench
