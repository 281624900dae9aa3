// Compares, then times, the operators one after the other.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/ops_bench.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/free_memory.h"
#include "bench/interleaved_runs.h"
#include "bench/ops_cases.h"
#include "bench/roofline.h"
#include "bench/text_table.h"
#include "bench/wrong_result.h"

namespace opst::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kCheckedTokens = 4;

struct OperatorRow {
  std::string name;
  double bytes = 0, flop = 0;
  Summary us = {}, fraction = {};
};

// Sums over H or F in another order: relative to the largest element. Under balanced routing the
// balance loss has a gradient of 0 but for its rounding.
void CheckResults(const Context& context, const LayerShape& shape) {
  const Context reference({.num_threads = 1, .settings = {{"implementation", "reference"}}});
  for (const OperatorCase& one : OperatorCases(context, shape, kCheckedTokens)) {
    one.run(reference);
    const std::vector<float> wanted = one.result();
    one.run(context);
    const std::vector<float> got = one.result();
    constexpr float kRounding = 1e-8f;
    float most = 0;
    for (const float value : wanted) most = std::max(most, std::abs(value));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::abs(got[i] - wanted[i]) <= 1e-4f * most + kRounding) continue;
      throw WrongResult(Concat(one.name, " must agree with the reference"),
                        Concat(got[i], " for ", wanted[i], " at ", i));
    }
  }
}

OperatorRow MeasureCase(const Context& context, Roofline& roofline, const OperatorCase& one,
                        int runs) {
  roofline.StartRow();
  const Contestant contestants[] = {{.call = [&](size_t) { one.run(context); }}};
  const std::vector<double> samples =
      RunInterleaved(contestants, SamplingTurns(roofline, static_cast<size_t>(runs)))[0];
  std::vector<double> fractions;
  for (size_t run = 0; run < samples.size(); ++run) {
    fractions.push_back(roofline.BoundUs(run, one.bytes, one.flop) / samples[run]);
  }
  return {one.name, one.bytes, one.flop, Summarize(samples), Summarize(fractions)};
}

std::string TableText(const std::vector<OperatorRow>& rows) {
  TextTable table({"operator", "us", "min-max", "GB/s", "GFLOP/s", "of roofline"});
  for (const OperatorRow& row : rows) {
    table.AddRow(
        {row.name, Digits(row.us.median), Spread(row.us), Digits(row.bytes / row.us.median / 1e3),
         row.flop > 0 ? Digits(row.flop / row.us.median / 1e3) : "", Percent(row.fraction.median)});
  }
  return table.ToString();
}

Json RowsJson(const std::vector<OperatorRow>& rows) {
  Json all = Json::array();
  for (const OperatorRow& row : rows) {
    all.push_back({{"operator", row.name},
                   {"bytes", ToJson(row.bytes)},
                   {"flop", ToJson(row.flop)},
                   {"us", ToJson(row.us)},
                   {"fraction_of_roofline", ToJson(row.fraction)}});
  }
  return all;
}

}  // namespace

Report RunOpsBench(const Context& context, const OpsBenchOptions& options,
                   const ProgressFn& on_progress) {
  LayerShape shape = options.shape;
  shape.num_experts = std::min(shape.num_experts, kMostBenchedExperts);
  shape.top_k = std::min(shape.top_k, shape.num_experts);
  OPST_CHECK_ARG(options.runs >= 1, "bench", "runs must be at least 1", options.runs);
  OPST_CHECK_ARG(options.num_tokens >= 1 && options.num_tokens <= INT32_MAX / shape.top_k, "bench",
                 Concat("tokens must be 1 to ", INT32_MAX / shape.top_k), options.num_tokens);
  const size_t bytes = OperatorCaseBytes(shape, options.num_tokens);
  RequireFreeMemory("bench", "weights, gradients and rows", bytes + bytes / 4,
                    "take a smaller shape or fewer tokens");
  const Machine machine = DescribeMachine(context);
  CheckResults(context, shape);
  const std::vector<OperatorCase> cases = OperatorCases(context, shape, options.num_tokens);
  Roofline roofline(context, machine, {.model_bytes = bytes, .benchmark_bytes = bytes});
  std::vector<OperatorRow> rows;
  for (const OperatorCase& one : cases) {
    if (on_progress) on_progress(rows.size(), cases.size());
    rows.push_back(MeasureCase(context, roofline, one, options.runs));
  }
  Report report;
  NoteFewRuns(options.runs, report.notes);
  report.text = Concat(Line(machine), "\n", shape.name, ": ", shape.ToString(), ", T ",
                       options.num_tokens, ", f32; medians of ", options.runs,
                       options.runs == 1 ? " run\n\n" : " runs\n\n", TableText(rows));
  report.json = JsonDocument("ops", machine,
                             {{"shape", shape.name},
                              {"hidden", shape.hidden},
                              {"ffn", shape.ffn},
                              {"num_experts", shape.num_experts},
                              {"top_k", shape.top_k},
                              {"tokens", options.num_tokens},
                              {"runs", options.runs}},
                             roofline.Limits(), RowsJson(rows));
  return report;
}

}  // namespace opst::bench
