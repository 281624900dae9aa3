// Checks the request, walks the numbers of tokens, and writes table and JSON.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/layer_bench.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/config.h"
#include "base/free_memory.h"
#include "base/strings.h"
#include "bench/layer_rows.h"
#include "bench/text_table.h"
#include "ops/grouped_matmul/panel_product.h"

namespace opst::bench {
namespace {

using Json = nlohmann::ordered_json;

void CheckOptions(const Context& context, const LayerBenchOptions& options) {
  const LayerShape& shape = options.shape;
  OPST_CHECK_ARG(options.runs >= 1, "bench", "runs must be at least 1", options.runs);
  OPST_CHECK_ARG(!options.tokens.empty(), "bench",
                 "the number of tokens must be given, by the shape or by --tokens", "none");
  for (const int64_t tokens : options.tokens) {
    OPST_CHECK_ARG(tokens >= 1 && tokens <= INT32_MAX / shape.top_k, "bench",
                   Concat("tokens must be 1 to ", INT32_MAX / shape.top_k), tokens);
  }
  std::string advice = "take a smaller shape, fewer tokens";
  if (options.type.format == WeightFormat::kF32) advice += ", --weights bf16";
  if (options.runs_plain_loop)
    advice += ", or --no-plain-loop (its f32 weights need as much again)";
  RequireFreeMemory(
      "bench",
      Concat("the layer ", shape.name, " (", shape.ToString(), ") in ", options.type.ToString()),
      PlanMemory(context, options).peak_bytes(), advice);
}

std::string TableText(const std::vector<LayerRow>& rows) {
  TextTable table({"T", "experts", "ms", "min-max", "route ms", "GFLOP/s", "GB/s", "of FMA peak",
                   "of roofline", "plain loop ms", "ratio", "min-max"});
  for (const LayerRow& row : rows) {
    const auto ms = [](double us) { return Digits(us / 1e3); };
    const bool has_plain = row.plain_us.runs > 0;
    const Summary in_ms{0, row.us.min / 1e3, row.us.max / 1e3, row.us.runs};
    table.AddRow({Concat(row.num_tokens), Concat(row.distinct_experts), ms(row.us.median),
                  Spread(in_ms), ms(row.route_us), Digits(row.gflops), Digits(row.gb_per_s),
                  Percent(row.fma_fraction.median), Percent(row.roofline.median),
                  has_plain ? ms(row.plain_us.median) : "-",
                  has_plain ? Concat(Digits(row.ratio.median), "x") : "-", Spread(row.ratio)});
  }
  return table.ToString();
}

Json RowJson(const LayerRow& row, const LayerShape& shape) {
  return {{"tokens", row.num_tokens},
          {"flop", ToJson(shape.flop(row.num_tokens))},
          {"distinct_experts", row.distinct_experts},
          {"distinct_weight_bytes", ToJson(row.weight_bytes)},
          {"us", ToJson(row.us)},
          {"route_us", ToJson(row.route_us)},
          {"gflop_per_s", ToJson(row.gflops)},
          {"gb_per_s", ToJson(row.gb_per_s)},
          {"limit_fma_gflop_per_s", ToJson(row.fma_gflops)},
          {"limit_read_gb_per_s", ToJson(row.read_gb_per_s)},
          {"fraction_of_fma_peak", ToJson(row.fma_fraction)},
          {"fraction_of_read_limit", ToJson(row.gb_per_s / row.read_gb_per_s)},
          {"fraction_of_roofline", ToJson(row.roofline)},
          {"plain_loop_us", ToJson(row.plain_us)},
          {"ratio_to_plain_loop", ToJson(row.ratio)},
          {"max_error_of_bound", ToJson(row.max_error)},
          {"plain_loop_max_error_of_bound", ToJson(row.plain_max_error)}};
}

// Integers that meet f32 activations are multiplied as f32. `act=auto` is measured by its faster
// arithmetic.
Arithmetic ArithmeticOf(const Context& context, WeightFormat format) {
  const ActivationFormat activations =
      ActivationFormatOf(context.config(), kRowsBoundByArithmetic, 1);
  if (activations == ActivationFormat::kF32 || !IsInteger(format)) return Arithmetic::kFma;
  const bool is_quads =
      GetIntegerTileKernels(format, activations).row_format == ActivationFormat::kInt8;
  return is_quads ? Arithmetic::kQuadDot : Arithmetic::kPairDot;
}

Json OptionsJson(const Context& context, const LayerBenchOptions& options, bool reads_memory) {
  const LayerShape& shape = options.shape;
  return {{"shape",
           {{"name", shape.name},
            {"hidden", shape.hidden},
            {"ffn", shape.ffn},
            {"num_experts", shape.num_experts},
            {"top_k", shape.top_k},
            {"num_layers", shape.num_layers}}},
          {"weights", options.type.ToString()},
          {"act", context.config().GetChoice("act")},
          {"routing", Name(options.routing)},
          {"weights_from", reads_memory ? "memory" : "cache"},
          {"runs", options.runs},
          {"plain_loop", options.runs_plain_loop}};
}

void NotePlainRuns(const LayerRow& row, int runs, std::vector<std::string>& notes) {
  if (row.plain_us.runs == 0 || row.plain_us.runs == runs) return;
  notes.push_back(Concat("T ", row.num_tokens, ": the plain loop ran ", row.plain_us.runs, " of ",
                         runs, " times, it is slow"));
}

std::string Head(const LayerBenchOptions& options, const Machine& machine,
                 const Roofline& roofline) {
  const LayerShape& shape = options.shape;
  return Concat(Line(machine), "\n", shape.name, ": ", shape.ToString(), "; ",
                options.type.ToString(), " weights, ",
                FormatBytes(PackedBytes(shape, options.type)), " a layer, read from ",
                roofline.reads_memory() ? "memory" : "cache", "; ", Name(options.routing),
                " routing; medians of ", options.runs, options.runs == 1 ? " run\n" : " runs\n",
                Line(roofline.Limits()), "\n\n");
}

}  // namespace

Report RunLayerBench(const Context& context, const LayerBenchOptions& requested,
                     const ProgressFn& on_progress) {
  LayerBenchOptions options = requested;
  if (options.tokens.empty()) options.tokens = options.shape.all_tokens();
  CheckOptions(context, options);
  const Machine machine = DescribeMachine(context);
  const uint64_t num_steps = options.tokens.size() + 1;
  if (on_progress) on_progress(0, num_steps);

  const size_t layer_bytes = PackedBytes(options.shape, options.type);
  Roofline roofline(context, machine,
                    {.model_bytes = layer_bytes * static_cast<size_t>(options.shape.num_layers),
                     .benchmark_bytes = layer_bytes,
                     .reserved_bytes = PlanMemory(context, options).peak_bytes(),
                     .arithmetic = ArithmeticOf(context, options.type.format)});
  const LayerRunner runner(context, options);
  std::vector<LayerRow> rows;
  for (const int64_t tokens : options.tokens) {
    if (on_progress) on_progress(rows.size() + 1, num_steps);
    rows.push_back(runner.MeasureRow(tokens, roofline));
  }

  Report report;
  NoteFewRuns(options.runs, report.notes);
  Json rows_json = Json::array();
  for (const LayerRow& row : rows) {
    NotePlainRuns(row, options.runs, report.notes);
    rows_json.push_back(RowJson(row, options.shape));
  }
  report.text = Head(options, machine, roofline) + TableText(rows);
  report.json =
      JsonDocument("layer", machine, OptionsJson(context, options, roofline.reads_memory()),
                   roofline.Limits(), std::move(rows_json));
  return report;
}

}  // namespace opst::bench
