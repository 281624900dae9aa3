// Compares, then times, routing and plain routing in turn.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/routing_bench.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/free_memory.h"
#include "bench/interleaved_runs.h"
#include "bench/plain_routing.h"
#include "bench/roofline.h"
#include "bench/text_table.h"
#include "bench/wrong_result.h"
#include "opst/ops/gating.h"

namespace opst::bench {
namespace {

using Json = nlohmann::ordered_json;

struct RoutingRow {
  int64_t num_tokens = 0;
  double bytes = 0;
  Summary us = {};
  Summary plain_us = {};
  Summary ratio = {};
  double read_gb_per_s = 0;
  double rows_per_s() const { return static_cast<double>(num_tokens) / us.median * 1e6; }
  double gb_per_s() const { return bytes / us.median / 1e3; }
};

size_t LogitsBytes(const LayerShape& shape, int64_t tokens) {
  return static_cast<size_t>(tokens * shape.num_experts) * sizeof(float);
}

// Logits once; per slot its id, weight and entries of both maps.
double MovedBytes(const LayerShape& shape, int64_t tokens) {
  return static_cast<double>(LogitsBytes(shape, tokens)) +
         16.0 * static_cast<double>(tokens * shape.top_k);
}

void CheckOptions(const RoutingBenchOptions& options) {
  const LayerShape& shape = options.shape;
  OPST_CHECK_ARG(options.runs >= 1, "bench", "runs must be at least 1", options.runs);
  OPST_CHECK_ARG(!options.tokens.empty(), "bench", "the number of tokens must be given", "none");
  size_t most = 0;
  for (const int64_t tokens : options.tokens) {
    OPST_CHECK_ARG(tokens >= 1 && tokens <= INT32_MAX / shape.top_k, "bench",
                   Concat("tokens must be 1 to ", INT32_MAX / shape.top_k), tokens);
    most = std::max(most, LogitsBytes(shape, tokens));
  }
  RequireFreeMemory("bench", "the logits of all runs",
                    most * static_cast<size_t>(options.runs + 1) + 4 * most, "take fewer tokens");
}

RoutingRow MeasureRow(const Context& context, const Machine& machine,
                      const RoutingBenchOptions& options, int64_t num_tokens,
                      std::vector<Limit>& limits) {
  const LayerShape& shape = options.shape;
  const Shape logits_shape{num_tokens, shape.num_experts};
  const GatingOptions gating{.top_k = shape.top_k, .renormalizes = shape.renormalizes};
  std::vector<std::vector<float>> logits;
  for (int run = 0; run < options.runs; ++run) {
    logits.push_back(RandomLogits(options.routing, num_tokens, shape.num_experts,
                                  static_cast<uint32_t>(run) + 1));
  }
  const auto ours = [&](size_t run) {
    return Route(context, ConstTensorView(logits[run].data(), logits_shape), gating);
  };
  const auto plain = [&](size_t run) {
    return RoutePlain(context, shape, logits[run].data(), num_tokens);
  };
  const std::string difference = CompareRouting(ours(0), plain(0), logits[0].data());
  if (!difference.empty()) {
    throw WrongResult("our routing and the plain one must agree", difference);
  }

  // Logits are read where the router left them, whatever their number: from the cache.
  Roofline roofline(context, machine,
                    {.model_bytes = 0, .benchmark_bytes = LogitsBytes(shape, num_tokens)});
  const Contestant contestants[] = {{.call = [&](size_t run) { ours(run); }},
                                    {.call = [&](size_t run) { plain(run); }}};
  const std::vector<std::vector<double>> samples =
      RunInterleaved(contestants, SamplingTurns(roofline, static_cast<size_t>(options.runs)));
  for (const Limit& limit : roofline.Limits()) limits.push_back(limit);
  return {.num_tokens = num_tokens,
          .bytes = MovedBytes(shape, num_tokens),
          .us = Summarize(samples[0]),
          .plain_us = Summarize(samples[1]),
          .ratio = SummarizeRatio(samples[0], samples[1]),
          .read_gb_per_s = roofline.read_gb_per_s()};
}

std::string TableText(const std::vector<RoutingRow>& rows) {
  TextTable table({"T", "us", "min-max", "rows/s", "GB/s", "of read limit", "plain routing us",
                   "ratio", "min-max"});
  for (const RoutingRow& row : rows) {
    table.AddRow({Concat(row.num_tokens), Digits(row.us.median), Spread(row.us),
                  Digits(row.rows_per_s()), Digits(row.gb_per_s()),
                  Percent(row.gb_per_s() / row.read_gb_per_s), Digits(row.plain_us.median),
                  Concat(Digits(row.ratio.median), "x"), Spread(row.ratio)});
  }
  return table.ToString();
}

Json RowJson(const RoutingRow& row) {
  return {{"tokens", row.num_tokens},
          {"bytes", ToJson(row.bytes)},
          {"us", ToJson(row.us)},
          {"rows_per_s", ToJson(row.rows_per_s())},
          {"gb_per_s", ToJson(row.gb_per_s())},
          {"limit_read_gb_per_s", ToJson(row.read_gb_per_s)},
          {"fraction_of_read_limit", ToJson(row.gb_per_s() / row.read_gb_per_s)},
          {"plain_routing_us", ToJson(row.plain_us)},
          {"ratio_to_plain_routing", ToJson(row.ratio)}};
}

}  // namespace

Report RunRoutingBench(const Context& context, const RoutingBenchOptions& options,
                       const ProgressFn& on_progress) {
  CheckOptions(options);
  const Machine machine = DescribeMachine(context);
  const LayerShape& shape = options.shape;
  std::vector<RoutingRow> rows;
  std::vector<Limit> limits;
  Json rows_json = Json::array();
  for (const int64_t tokens : options.tokens) {
    if (on_progress) on_progress(rows.size(), options.tokens.size());
    rows.push_back(MeasureRow(context, machine, options, tokens, limits));
    rows_json.push_back(RowJson(rows.back()));
  }
  Report report;
  NoteFewRuns(options.runs, report.notes);
  report.text = Concat(Line(machine), "\nrouting of E ", shape.num_experts, ", k ", shape.top_k,
                       "; ", Name(options.routing), "; medians of ", options.runs,
                       options.runs == 1 ? " run\n\n" : " runs\n\n", TableText(rows));
  report.json = JsonDocument("routing", machine,
                             {{"num_experts", shape.num_experts},
                              {"top_k", shape.top_k},
                              {"renormalizes", shape.renormalizes},
                              {"routing", Name(options.routing)},
                              {"runs", options.runs}},
                             limits, std::move(rows_json));
  return report;
}

}  // namespace opst::bench
