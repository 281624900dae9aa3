// The list of limits, and how each is sampled.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/limits.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/free_memory.h"
#include "base/stopwatch.h"
#include "base/strings.h"
#include "bench/limit_probes.h"
#include "bench/text_table.h"
#include "kernels/gemm_tile.h"

namespace opst::bench {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;
constexpr size_t kMinReadBytes = 64 * kMegabyte;

// What every measurement below needs.
struct Session {
  const Context& context;
  const Machine& machine;
  int runs;
  size_t read_bytes;
  std::vector<Limit> limits;

  template <typename Sample>
  void Add(std::string name, std::string label, Workers workers, std::string unit, Sample sample,
           std::string note = "") {
    std::vector<double> samples;
    for (int run = 0; run < runs; ++run) samples.push_back(sample());
    limits.push_back({std::move(name), std::move(label), NumWorkers(context, workers),
                      std::move(unit), Summarize(std::move(samples)), std::move(note)});
  }
  // One worker, and all of them when they are more.
  template <typename AddOne>
  void ForWorkers(AddOne add) {
    add(Workers::kOne);
    if (context.num_threads() > 1) add(Workers::kAll);
  }
};

void AddArithmetic(Session& session) {
  const ArithmeticProbe fma(session.context, Arithmetic::kFma);
  const ArithmeticProbe pairs(session.context, Arithmetic::kPairDot);
  const ArithmeticProbe quads(session.context, Arithmetic::kQuadDot);
  session.ForWorkers([&](Workers workers) {
    session.Add("fma_f32", "multiply-add f32, in registers", workers, "GFLOP/s",
                [&] { return fma.Sample(workers); });
    session.Add("pair_dot_int16", "pair products int16, in registers", workers, "GOP/s",
                [&] { return pairs.Sample(workers); });
    session.Add("quad_dot_int8", "quad products int8, in registers", workers, "GOP/s",
                [&] { return quads.Sample(workers); });
  });
}

// The largest tile of a weight format, its operands in L1: what a matrix product can reach.
double SampleTile(const Context& context, WeightFormat format, ActivationFormat activations,
                  Workers workers) {
  const TileKernels& tiles =
      IsInteger(format) ? GetIntegerTileKernels(format, activations) : GetTileKernels(format);
  const size_t rows = tiles.max_rows;
  const size_t num_panels = tiles.PanelsPerTile(rows);
  const TileFn tile = tiles.tile[rows - 1][num_panels - 1];
  const PanelLayout layout{format, PanelOrder::kPlain,
                           static_cast<int64_t>(num_panels) * PanelLayout::kWidth,
                           static_cast<int64_t>(kBlockK)};
  constexpr int kCalls = 4000;  // some 10 ms
  const double us = TimeOnWorkers(context, workers, [&](int, int) {
    const AlignedBuffer a(rows * kBlockK * sizeof(float));
    const AlignedBuffer panels(layout.matrix_bytes());
    const AlignedBuffer c(rows * num_panels * kPanelWidth * sizeof(float));
    for (int call = 0; call < kCalls; ++call) {
      tile({reinterpret_cast<const float*>(a.data()),
            panels.data(),
            layout.panel_bytes(),
            kBlockK,
            reinterpret_cast<float*>(c.data()),
            num_panels * kPanelWidth,
            {},
            static_cast<size_t>(layout.group)});
    }
  });
  const double flop = 2.0 * kCalls * static_cast<double>(rows * num_panels * kPanelWidth * kBlockK);
  return flop * NumWorkers(context, workers) / us / 1e3;
}

void AddTiles(Session& session) {
  using enum ActivationFormat;
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kF16}) {
    session.ForWorkers([&](Workers workers) {
      session.Add(Concat("tile_", Name(format), "_l1"),
                  Concat("matrix tile, ", Name(format), " weights in L1"), workers, "GFLOP/s",
                  [&] { return SampleTile(session.context, format, kF32, workers); });
    });
  }
  for (const WeightFormat format :
       {WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kMxfp4}) {
    for (const ActivationFormat act : {kInt16, kInt8}) {
      const std::string_view act_name = act == kInt16 ? "int16" : "int8";
      session.ForWorkers([&](Workers workers) {
        session.Add(Concat("tile_", Name(format), "_act_", act_name, "_l1"),
                    Concat("matrix tile, ", Name(format), " weights in L1, act ", act_name),
                    workers, "GOP/s",
                    [&] { return SampleTile(session.context, format, act, workers); });
      });
    }
  }
}

void AddRead(Session& session, std::string name, std::string label, size_t bytes, PageKind pages) {
  const ReadProbe probe(session.context, bytes, pages);
  session.ForWorkers([&](Workers workers) {
    const ReadOrder order = probe.FastestOrder(workers);
    std::string note(Name(order));
    if (bytes >= kMinReadBytes) {
      note += Concat(", ", FormatBytes(probe.bytes()), ", ", Percent(probe.huge_fraction()),
                     " in 2 MB pages");
    }
    session.Add(
        name, label, workers, "GB/s", [&] { return probe.Sample(workers, order); }, note);
  });
}

void AddCacheReads(Session& session) {
  const auto threads = static_cast<size_t>(session.context.num_threads());
  // Half of a cache leaves room for what else lives there.
  if (session.machine.l2_bytes > 0) {
    AddRead(session, "read_l2", "read L2", threads * session.machine.l2_bytes / 2, PageKind::kHuge);
  }
  const size_t l3_bytes = session.machine.l3_bytes / 2;
  if (l3_bytes > 2 * threads * session.machine.l2_bytes && l3_bytes <= session.read_bytes) {
    AddRead(session, "read_l3", "read L3", l3_bytes, PageKind::kHuge);
  }
}

void AddHandOvers(Session& session) {
  if (session.context.num_threads() == 1) return;
  constexpr int kTimes = 1000;
  session.Add("fork_join", "fork and join of an empty section", Workers::kAll, "us", [&] {
    const Stopwatch watch;
    for (int i = 0; i < kTimes; ++i) session.context.pool().Run([](int, int) {});
    return watch.elapsed_us() / kTimes;
  });
  session.Add("queued_section", "section of two tasks per worker", Workers::kAll, "us", [&] {
    const auto num_tasks = 2 * static_cast<size_t>(session.context.num_threads());
    const Stopwatch watch;
    for (int i = 0; i < kTimes; ++i) {
      session.context.pool().ParallelFor(num_tasks, [](size_t, int) {});
    }
    return watch.elapsed_us() / kTimes;
  });
}

size_t ChooseReadBytes(const Machine& machine, size_t wanted) {
  const size_t cache = std::max(machine.l3_bytes, machine.l2_bytes);
  if (wanted == 0) {
    wanted = std::max(2048 * kMegabyte, 4 * cache);
    wanted = std::min(wanted, FreeMemoryBytes() / 3);
    wanted = std::max({wanted, 2 * cache, kMinReadBytes});
  }
  RequireFreeMemory("bench", "a buffer larger than the caches", wanted, "close other programs");
  return wanted;
}

}  // namespace

std::vector<Limit> MeasureLimits(const Context& context, const Machine& machine,
                                 const LimitsOptions& options, const ProgressFn& on_progress) {
  Session session{context, machine, options.runs, ChooseReadBytes(machine, options.read_bytes), {}};
  const std::pair<const char*, std::function<void()>> steps[] = {
      {"multiply-add", [&] { AddArithmetic(session); }},
      {"tiles", [&] { AddTiles(session); }},
      {"memory, 2 MB pages",
       [&] {
         AddRead(session, "read_memory_2mb_pages", "read memory, 2 MB pages", session.read_bytes,
                 PageKind::kHuge);
       }},
      {"memory, 4 KB pages",
       [&] {
         AddRead(session, "read_memory_4kb_pages", "read memory, 4 KB pages", session.read_bytes,
                 PageKind::kSmall);
       }},
      {"caches", [&] { AddCacheReads(session); }},
      {"threads", [&] { AddHandOvers(session); }},
  };
  uint64_t done = 0;
  for (const auto& [name, measure] : steps) {
    if (on_progress) on_progress(done++, std::size(steps));
    measure();
  }
  return std::move(session.limits);
}

Report RunLimitsBench(const Context& context, const LimitsOptions& options,
                      const ProgressFn& on_progress) {
  const Machine machine = DescribeMachine(context);
  const std::vector<Limit> limits = MeasureLimits(context, machine, options, on_progress);
  TextTable table({"limit", "threads", "median", "min-max", "unit", "how"}, {0, 4, 5});
  for (const Limit& limit : limits) {
    table.AddRow({limit.label, Concat(limit.threads), Digits(limit.value.median),
                  Spread(limit.value), limit.unit, limit.note});
  }
  Report report;
  NoteFewRuns(options.runs, report.notes);
  report.text = Concat(Line(machine), "\n\n", table.ToString());
  report.json =
      JsonDocument("limits", machine, {{"runs", options.runs}}, limits, nlohmann::json::array());
  return report;
}

}  // namespace opst::bench
