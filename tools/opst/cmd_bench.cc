// `opst bench`: limits of the machine, a MoE layer, operators, routing, a model. Measuring is in
// bench/.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bench/layer_bench.h"
#include "bench/limits.h"
#include "bench/model_bench.h"
#include "bench/ops_bench.h"
#include "bench/routing_bench.h"
#include "command_line.h"
#include "commands.h"
#include "progress.h"

namespace opst::tool {
namespace {

using bench::LayerShape;
using bench::ProgressFn;
using bench::Report;

constexpr int64_t kMaxTokens = int64_t{1} << 31;
constexpr const char* kDefaultShape = "olmoe-1b-7b";
constexpr const char* kDescription =
    "Measure this machine, and what the library reaches on it, as % of the measured limits";

// What every benchmark takes.
struct BenchArguments {
  std::shared_ptr<Settings> settings = std::make_shared<Settings>();
  std::string json_path;
  int runs = 7;
};

// What names a batch of tokens.
struct TokenArguments {
  std::string shape = kDefaultShape;
  std::vector<int64_t> tokens;
  int64_t seq_len = 0;
  int64_t batch_size = 0;
  bench::RoutingKind routing = bench::RoutingKind::kUniform;
};

void AddBenchArguments(CLI::App& command, BenchArguments& arguments) {
  command.add_option("--runs", arguments.runs, "Repetitions; medians of fewer than 5 are no claim")
      ->transform(IntegerFrom(1, 1000))
      ->capture_default_str();
  command.add_option("--json", arguments.json_path, "Also write the figures to this file")
      ->type_name("FILE");
  AddSettings(command, arguments.settings);
}

// An option that takes one of the names of a table, in any case.
template <typename Value>
void AddChoice(CLI::App& command, const std::string& name, Value& value,
               std::vector<std::pair<std::string, Value>> choices, const std::string& help) {
  std::vector<std::string> names;
  std::string preset;
  for (const auto& [choice, chosen] : choices) {
    names.push_back(choice);
    if (chosen == value) preset = choice;
  }
  command
      .add_option_function<std::string>(
          name,
          [&value, choices = std::move(choices)](const std::string& text) {
            for (const auto& [choice, chosen] : choices) {
              if (choice == text) value = chosen;
            }
          },
          help)
      ->transform(CLI::IsMember(names, CLI::ignore_case))
      ->type_name("NAME")
      ->default_str(preset);
}

void AddTokenArguments(CLI::App& command, TokenArguments& arguments) {
  command
      .add_option("--shape", arguments.shape,
                  "Layer shape: a file, or one of " + bench::ShapeNames())
      ->type_name("NAME|FILE")
      ->capture_default_str();
  CLI::Option* tokens =
      command.add_option("--tokens", arguments.tokens, "Batch sizes, e.g. 1,8,64,512")
          ->delimiter(',')
          ->transform(IntegerFrom(1, kMaxTokens));
  command
      .add_option(BothSpellings("--seq-len"), arguments.seq_len,
                  "Tokens of a sequence; T = sequence length x batch size")
      ->transform(IntegerFrom(1, kMaxTokens))
      ->excludes(tokens);
  command
      .add_option(BothSpellings("--batch-size"), arguments.batch_size,
                  "Sequences; alone: one token of each, as in decoding")
      ->transform(IntegerFrom(1, kMaxTokens))
      ->excludes(tokens);
  AddChoice<bench::RoutingKind>(command, "--routing", arguments.routing,
                                {{"uniform", bench::RoutingKind::kUniform},
                                 {"zipf", bench::RoutingKind::kZipf},
                                 {"one-hot", bench::RoutingKind::kOneHot}},
                                "How tokens spread over experts");
}

std::vector<int64_t> TokensOf(const TokenArguments& arguments, std::vector<int64_t> otherwise) {
  if (!arguments.tokens.empty()) return arguments.tokens;
  if (arguments.seq_len == 0 && arguments.batch_size == 0) return otherwise;
  const int64_t length = std::max<int64_t>(arguments.seq_len, 1);
  const int64_t batch = std::max<int64_t>(arguments.batch_size, 1);
  OPST_CHECK_ARG(length <= kMaxTokens / batch, "bench",
                 Concat("sequence length x batch size must be at most ", kMaxTokens), length, " x ",
                 batch);
  return {length * batch};
}

// Runs one benchmark: table to standard output, notes and progress to standard error.
void RunBench(const BenchArguments& arguments, const std::string& label,
              const std::function<Report(const Context&, const ProgressFn&)>& run) {
  const Context context({.settings = arguments.settings->values});
  // Opened first: a wrong path should not be found out after minutes of measuring.
  std::ofstream json;
  if (!arguments.json_path.empty()) {
    json.open(arguments.json_path, std::ios::app);
    OPST_CHECK_IO(json.good(), arguments.json_path, "the JSON file must be writable",
                  "an error when it was opened");
  }
  Progress progress(label);
  const Report report =
      run(context, [&](uint64_t done, uint64_t total) { progress.Show(done, total); });
  progress.Clear();
  std::fputs(report.text.c_str(), stdout);
  std::fflush(stdout);
  for (const std::string& note : report.notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  if (arguments.json_path.empty()) return;
  json.close();
  json.open(arguments.json_path, std::ios::trunc);
  json << report.json << std::flush;
  OPST_CHECK_IO(json.good(), arguments.json_path, "the JSON file must be writable",
                "an error when it was written");
}

void AddLimits(CLI::App& bench) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = bench.add_subcommand(
      "limits", "Multiply-add peak, read bandwidth of memory and caches, cost of threads");
  AddBenchArguments(*command, *arguments);
  command->callback([arguments] {
    RunBench(*arguments, "limits", [&](const Context& context, const ProgressFn& on_progress) {
      return bench::RunLimitsBench(context, {.runs = arguments->runs}, on_progress);
    });
  });
}

struct LayerArguments : BenchArguments {
  TokenArguments batch;
  WeightFormat format = WeightFormat::kF32;
  int64_t group = kDefaultGroup;
  bool runs_plain_loop = true;
};

void AddLayer(CLI::App& bench) {
  auto arguments = std::make_shared<LayerArguments>();
  CLI::App* command =
      bench.add_subcommand("layer", "One fused MoE layer, beside a plain C++ loop and the limits");
  AddTokenArguments(*command, arguments->batch);
  AddChoice<WeightFormat>(*command, "--weights", arguments->format,
                          {{"f32", WeightFormat::kF32},
                           {"bf16", WeightFormat::kBf16},
                           {"f16", WeightFormat::kF16},
                           {"int8", WeightFormat::kInt8},
                           {"int4", WeightFormat::kInt4},
                           {"mxfp4", WeightFormat::kMxfp4}},
                          "Weight format");
  command->add_option("--group", arguments->group, "Inputs that share a scale of int8 or int4")
      ->transform(CLI::IsMember({"32", "64", "128"}))
      ->capture_default_str();
  command->add_flag("--plain-loop,--plain_loop,!--no-plain-loop,!--no_plain_loop",
                    arguments->runs_plain_loop,
                    "Run the plain loop beside ours (default); --no-plain-loop saves its time and "
                    "memory");
  AddBenchArguments(*command, *arguments);
  command->callback([arguments] {
    const LayerShape shape = bench::FindShape(arguments->batch.shape);
    const bench::LayerBenchOptions options{.shape = shape,
                                           .tokens = TokensOf(arguments->batch, shape.all_tokens()),
                                           .type = {arguments->format, arguments->group},
                                           .routing = arguments->batch.routing,
                                           .runs_plain_loop = arguments->runs_plain_loop,
                                           .runs = arguments->runs};
    RunBench(*arguments, "layer", [&](const Context& context, const ProgressFn& on_progress) {
      return bench::RunLayerBench(context, options, on_progress);
    });
  });
}

struct RoutingArguments : BenchArguments {
  TokenArguments batch;
  int64_t num_experts = 0;
  int64_t top_k = 0;
};

void AddRouting(CLI::App& bench) {
  auto arguments = std::make_shared<RoutingArguments>();
  CLI::App* command = bench.add_subcommand(
      "routing", "Gating and routing plan, beside plain C++ (softmax, partial_sort, vectors)");
  AddTokenArguments(*command, arguments->batch);
  command
      ->add_option(BothSpellings("--num-experts"), arguments->num_experts,
                   "E instead of the shape's")
      ->transform(IntegerFrom(1, 1 << 20));
  command->add_option(BothSpellings("--top-k"), arguments->top_k, "k instead of the shape's")
      ->transform(IntegerFrom(1, 1 << 20));
  AddBenchArguments(*command, *arguments);
  command->callback([arguments] {
    LayerShape shape = bench::FindShape(arguments->batch.shape);
    if (arguments->num_experts > 0) shape.num_experts = arguments->num_experts;
    if (arguments->top_k > 0) shape.top_k = arguments->top_k;
    OPST_CHECK_ARG(shape.top_k <= shape.num_experts, "bench", "top_k must be at most num_experts",
                   shape.top_k, " of ", shape.num_experts);
    const bench::RoutingBenchOptions options{
        .shape = shape,
        .tokens = TokensOf(arguments->batch, {1, 64, 512, 4096}),
        .routing = arguments->batch.routing,
        .runs = arguments->runs};
    RunBench(*arguments, "routing", [&](const Context& context, const ProgressFn& on_progress) {
      return bench::RunRoutingBench(context, options, on_progress);
    });
  });
}

struct OpsArguments : BenchArguments {
  std::string shape = kDefaultShape;
  int64_t tokens = bench::OpsBenchOptions{}.num_tokens;
};

void AddOps(CLI::App& bench) {
  auto arguments = std::make_shared<OpsArguments>();
  CLI::App* command = bench.add_subcommand(
      "ops", "Every operator by itself, forward and backward, beside the limits");
  command
      ->add_option("--shape", arguments->shape,
                   Concat("Layer shape, of it at most ", bench::kMostBenchedExperts,
                          " experts: a file, or one of ", bench::ShapeNames()))
      ->type_name("NAME|FILE")
      ->capture_default_str();
  command->add_option("--tokens", arguments->tokens, "Tokens of the batch")
      ->transform(IntegerFrom(1, kMaxTokens))
      ->capture_default_str();
  AddBenchArguments(*command, *arguments);
  command->callback([arguments] {
    const bench::OpsBenchOptions options{.shape = bench::FindShape(arguments->shape),
                                         .num_tokens = arguments->tokens,
                                         .runs = arguments->runs};
    RunBench(*arguments, "ops", [&](const Context& context, const ProgressFn& on_progress) {
      return bench::RunOpsBench(context, options, on_progress);
    });
  });
}

struct ModelArguments : BenchArguments {
  bench::ModelBenchOptions options;
};

void AddModel(CLI::App& bench) {
  auto arguments = std::make_shared<ModelArguments>();
  arguments->runs = arguments->options.runs;
  CLI::App* command =
      bench.add_subcommand("model", "Prefill and decode speed and memory of a packed model");
  command->add_option("model", arguments->options.path, "Packed file")->required();
  command
      ->add_option(BothSpellings("--prompt-tokens"), arguments->options.prompt_tokens,
                   "Tokens of the prompt, random")
      ->transform(IntegerFrom(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option(BothSpellings("--new-tokens"), arguments->options.new_tokens,
                   "Tokens after the prompt, one by one")
      ->transform(IntegerFrom(1, 1 << 20))
      ->capture_default_str();
  AddBenchArguments(*command, *arguments);
  command->callback([arguments] {
    arguments->options.runs = arguments->runs;
    RunBench(*arguments, "model", [&](const Context& context, const ProgressFn& on_progress) {
      return bench::RunModelBench(context, arguments->options, on_progress);
    });
  });
}

}  // namespace

void AddBench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", kDescription);
  command->require_subcommand(1);
  AddLimits(*command);
  AddLayer(*command);
  AddOps(*command);
  AddRouting(*command);
  AddModel(*command);
}

}  // namespace opst::tool
