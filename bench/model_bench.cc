// Feeds random tokens to a model and times the calls.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/model_bench.h"

#include <nlohmann/json.hpp>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/config.h"
#include "base/free_memory.h"
#include "base/stopwatch.h"
#include "base/strings.h"
#include "bench/model_cost.h"
#include "bench/roofline.h"
#include "bench/text_table.h"
#include "opst/model.h"

namespace opst::bench {
namespace {

using Json = nlohmann::ordered_json;

std::vector<int32_t> RandomIds(int64_t count, int64_t vocab_size) {
  std::mt19937 random(1);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size));
  }
  return ids;
}

// Without folders: results are for others to read.
std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

struct ModelTimes {
  double load_us = 0;  // mapping and checking; with load = map, pages arrive later
  Summary prefill_tokens_per_s;
  Summary decode_tokens_per_s;
  size_t sequence_bytes = 0;
  size_t peak_bytes = 0;  // resident, mapped pages of the file included
};

ModelTimes TimeModel(const Context& context, const ModelBenchOptions& options,
                     const ProgressFn& on_progress) {
  ModelTimes times = {};
  const Stopwatch load_watch;
  const Model model = Model::Load(context, options.path);
  times.load_us = load_watch.elapsed_us();
  const int64_t num_tokens = options.prompt_tokens + options.new_tokens;
  times.sequence_bytes = model.SequenceBytes(num_tokens);
  Sequence sequence = model.NewSequence(num_tokens);
  const std::vector<int32_t> ids = RandomIds(num_tokens, model.config().vocab_size);
  const std::span<const int32_t> all(ids);
  const Tensor logits(DType::kF32, Shape{1, model.config().vocab_size});
  const auto num_prompt = static_cast<size_t>(options.prompt_tokens);
  std::vector<double> prefill;
  std::vector<double> decode;
  // One run more than is counted: the first brings the file's pages in.
  for (int run = 0; run <= options.runs; ++run) {
    if (on_progress) {
      on_progress(static_cast<uint64_t>(run), static_cast<uint64_t>(options.runs) + 2);
    }
    sequence.Clear();
    Stopwatch watch;
    model.Forward(context, all.first(num_prompt), sequence, logits);
    const double prefill_us = watch.RestartUs();
    for (size_t i = num_prompt; i < ids.size(); ++i) {
      model.Forward(context, all.subspan(i, 1), sequence, logits);
    }
    const double decode_us = watch.elapsed_us();
    if (run == 0) continue;
    prefill.push_back(static_cast<double>(options.prompt_tokens) / prefill_us * 1e6);
    decode.push_back(static_cast<double>(options.new_tokens) / decode_us * 1e6);
  }
  times.prefill_tokens_per_s = Summarize(std::move(prefill));
  times.decode_tokens_per_s = Summarize(std::move(decode));
  times.peak_bytes = PeakResidentBytes();
  return times;
}

// Figures derived from times, cost and limits.
struct ModelFigures {
  ModelTimes times = {};
  ModelCost cost = {};
  size_t file_bytes = 0;
  double prefill_gflops = 0;
  double decode_gb_per_s = 0;
  double fma_gflops = 0;
  double read_gb_per_s = 0;
};

std::string TableText(const ModelBenchOptions& options, const ModelFigures& figures) {
  const ModelTimes& times = figures.times;
  TextTable speed({"phase", "tokens", "tokens/s", "min-max", "rate", "of limit"});
  speed.AddRow({"prefill", Concat(options.prompt_tokens), Digits(times.prefill_tokens_per_s.median),
                Spread(times.prefill_tokens_per_s), Digits(figures.prefill_gflops) + " GFLOP/s",
                Percent(figures.prefill_gflops / figures.fma_gflops) + " of FMA peak"});
  speed.AddRow({"decode", Concat(options.new_tokens), Digits(times.decode_tokens_per_s.median),
                Spread(times.decode_tokens_per_s), Digits(figures.decode_gb_per_s) + " GB/s",
                Percent(figures.decode_gb_per_s / figures.read_gb_per_s) + " of read limit"});
  TextTable memory({"memory", "size"});
  memory.AddRow({"model file", FormatBytes(figures.file_bytes)});
  memory.AddRow({"keys and values", FormatBytes(times.sequence_bytes)});
  memory.AddRow({"peak resident", FormatBytes(times.peak_bytes)});
  memory.AddRow(
      {"weights read per new token", FormatBytes(static_cast<size_t>(figures.cost.decode_bytes))});
  return Concat(speed.ToString(), "\n", memory.ToString());
}

Json RowsJson(const ModelBenchOptions& options, const ModelFigures& figures) {
  const ModelTimes& times = figures.times;
  return Json::array(
      {{{"phase", "prefill"},
        {"tokens", options.prompt_tokens},
        {"tokens_per_s", ToJson(times.prefill_tokens_per_s)},
        {"gflop_per_s", ToJson(figures.prefill_gflops)},
        {"fraction_of_fma_peak", ToJson(figures.prefill_gflops / figures.fma_gflops)}},
       {{"phase", "decode"},
        {"tokens", options.new_tokens},
        {"tokens_per_s", ToJson(times.decode_tokens_per_s)},
        {"weight_bytes_per_token", ToJson(figures.cost.decode_bytes)},
        {"gb_per_s", ToJson(figures.decode_gb_per_s)},
        {"fraction_of_read_limit", ToJson(figures.decode_gb_per_s / figures.read_gb_per_s)}},
       {{"phase", "load"},
        {"us", ToJson(times.load_us)},
        {"file_bytes", figures.file_bytes},
        {"sequence_bytes", times.sequence_bytes},
        {"peak_resident_bytes", times.peak_bytes}}});
}

}  // namespace

Report RunModelBench(const Context& context, const ModelBenchOptions& options,
                     const ProgressFn& on_progress) {
  OPST_CHECK_ARG(options.prompt_tokens >= 1 && options.new_tokens >= 1 && options.runs >= 1,
                 "bench", "prompt tokens, new tokens and runs must be at least 1",
                 options.prompt_tokens, ", ", options.new_tokens, ", ", options.runs);
  const Machine machine = DescribeMachine(context);
  ModelFigures figures{.times = TimeModel(context, options, on_progress)};

  const auto file = PackedModel::Open(options.path, LoadMode::kMap);
  figures.cost = CostOf(*file);
  figures.file_bytes = file->file().file().size();
  const bool maps = context.config().GetChoice("load") == "map";
  Roofline roofline(context, machine,
                    {.model_bytes = figures.file_bytes,
                     .benchmark_bytes = static_cast<size_t>(figures.cost.decode_bytes),
                     .pages = maps ? PageKind::kSmall : PageKind::kHuge});
  for (int run = 0; run < options.runs; ++run) {
    roofline.SampleArithmetic();
    roofline.SampleRead();
  }
  figures.fma_gflops = roofline.fma_gflops();
  figures.read_gb_per_s = roofline.read_gb_per_s();
  const double prefill_s =
      static_cast<double>(options.prompt_tokens) / figures.times.prefill_tokens_per_s.median;
  figures.prefill_gflops = PrefillFlop(figures.cost, options.prompt_tokens) / prefill_s / 1e9;
  figures.decode_gb_per_s =
      figures.cost.decode_bytes * figures.times.decode_tokens_per_s.median / 1e9;

  Report report;
  NoteFewRuns(options.runs, report.notes);
  report.text = Concat(Line(machine), "\n", FileName(options.path), ", ", file->config().family,
                       "; medians of ", options.runs, options.runs == 1 ? " run\n" : " runs\n",
                       Line(roofline.Limits()), "\n\n", TableText(options, figures));
  report.json = JsonDocument("model", machine,
                             {{"model", FileName(options.path)},
                              {"family", file->config().family},
                              {"prompt_tokens", options.prompt_tokens},
                              {"new_tokens", options.new_tokens},
                              {"load", maps ? "map" : "read"},
                              {"runs", options.runs}},
                             roofline.Limits(), RowsJson(options, figures));
  return report;
}

}  // namespace opst::bench
