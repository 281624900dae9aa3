// `opst generate`: text from a packed model, streamed as it appears.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "base/check.h"
#include "base/config.h"
#include "command_line.h"
#include "commands.h"
#include "generation_flags.h"
#include "interrupt.h"
#include "io/file.h"
#include "memory_check.h"
#include "opst/engine.h"
#include "progress.h"
#include "report_file.h"
#include "result_report.h"
#include "terminal_text.h"
#include "usage_table.h"

namespace opst::tool {
namespace {

struct GenerateArguments {
  std::string model;
  std::string prompt;
  std::string prompts_file;
  std::string usage_json;
  std::string result_json;
  GenerationFlags flags;
  MemoryFlags memory;
  int64_t num_log_probs = -1;
  bool has_prompt = false;
  bool shows_usage = false;
  bool overwrites = false;
};

struct Prompts {
  std::vector<std::string> texts;
  std::vector<int64_t> lines;  // of a file, from 1: where each text stands
};

// The lines of a file, empty ones left out.
Prompts ReadPrompts(const std::string& path) {
  std::istringstream lines(ReadWholeFile(path, kMaxPromptBytes));
  Prompts prompts;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    prompts.texts.push_back(line);
    prompts.lines.push_back(number);
  }
  OPST_CHECK_ARG(!prompts.texts.empty(), path, "the file must have a line that is a prompt",
                 "none");
  return prompts;
}

Prompts PromptsOf(const GenerateArguments& arguments) {
  if (!arguments.prompts_file.empty()) return ReadPrompts(arguments.prompts_file);
  return {{arguments.has_prompt ? arguments.prompt : ReadStandardInput()}, {}};
}

// The longest text that may come out; a prompt has at most a token per byte, and one in front.
MemoryPlanOptions PlanOptions(const GenerateOptions& options,
                              const std::vector<std::string>& prompts, const Tokenizer* tokenizer) {
  int64_t longest = 0;
  for (const std::string& prompt : prompts) {
    const size_t count = tokenizer ? tokenizer->Encode(prompt).size() : prompt.size() + 1;
    longest = std::max(longest, static_cast<int64_t>(count));
  }
  // What a plan counts at most; no machine holds as much, so the plan's error names the flags.
  int64_t length = longest + std::min(options.max_new_tokens, kMaxPlannedLength - longest);
  if (options.context_length > 0) length = std::min(length, options.context_length);
  return {.context_length = std::max<int64_t>(length, 1),
          .batch_size = static_cast<int64_t>(prompts.size()),
          .prefill_chunk = options.prefill_chunk};
}

// One prompt: echoed when it has been read, then the text as it appears.
std::vector<GenerateResult> RunOne(const Context& context, const Engine& engine,
                                   const std::string& prompt, GenerateOptions options) {
  Progress progress("prompt");
  options.on_prefill = [&](int64_t done, int64_t total) {
    progress.Show(static_cast<uint64_t>(done), static_cast<uint64_t>(total));
    if (done < total) return;
    progress.Clear();
    PrintText(prompt);
  };
  options.on_text = [](std::string_view text) {
    PrintText(text);
    return true;
  };
  std::vector<GenerateResult> results{engine.Generate(context, prompt, options)};
  PrintText("\n");
  return results;
}

// Several prompts: computed together, printed one after the other with the number of their line.
std::vector<GenerateResult> RunSeveral(const Context& context, const Engine& engine,
                                       const Prompts& prompts, const GenerateOptions& options) {
  std::vector<GenerateResult> results = engine.GenerateBatch(context, prompts.texts, options);
  for (size_t i = 0; i < results.size(); ++i) {
    PrintText(Concat(i == 0 ? "" : "\n", "[", prompts.lines[i], "] ", prompts.texts[i],
                     results[i].text, "\n"));
  }
  return results;
}

void RunGenerate(const Settings& settings, const GenerateArguments& arguments) {
  OPST_CHECK_ARG(arguments.prompts_file.empty() || !arguments.has_prompt, "generate",
                 "a prompt and --prompts exclude each other", "both");
  const Context context = settings.MakeContext();
  GenerateOptions options = arguments.flags.Parsed();
  if (arguments.num_log_probs >= 0) options.num_log_probs = arguments.num_log_probs;
  const std::vector<std::string> inputs{arguments.model, arguments.prompts_file};
  const IfExists if_exists = arguments.overwrites ? IfExists::kReplace : IfExists::kRefuse;
  ReportFile result_file("--result-json", arguments.result_json, if_exists, inputs);
  ReportFile usage_file("--usage-json", arguments.usage_json, if_exists, inputs);
  OPST_CHECK_ARG(arguments.result_json.empty() || arguments.result_json != arguments.usage_json,
                 "generate", "--result-json and --usage-json must be two files",
                 arguments.result_json);
  const Prompts prompts = PromptsOf(arguments);
  const bool reads = context.config().GetChoice("load") == "read";
  if (reads) {  // loading takes the memory, so the plan comes first
    const auto plan_for = [&](const ModelConfig&) {
      return PlanOptions(options, prompts.texts, nullptr);
    };
    CheckMemory(PlanFile(settings, arguments.model, plan_for), arguments.memory);
  }
  const Engine engine = Engine::Load(context, arguments.model);
  if (!reads) {
    const MemoryPlanOptions plan_for = PlanOptions(options, prompts.texts, &engine.tokenizer());
    CheckMemory(PlanMemory(context, engine.model(), plan_for), arguments.memory);
  }
  const Interrupt interrupt;
  options.is_cancelled = [&] { return interrupt.requested(); };
  ExpertUsage usage;
  if (arguments.shows_usage || !arguments.usage_json.empty()) {
    options.on_routing = [&](int64_t layer, const RoutingPlan& plan) { usage.Add(layer, plan); };
  }
  const std::vector<GenerateResult> results =
      arguments.prompts_file.empty() ? RunOne(context, engine, prompts.texts[0], options)
                                     : RunSeveral(context, engine, prompts, options);
  for (const GenerateResult& result : results) {
    if (options.num_log_probs) PrintLogProbs(engine, result);
    if (!arguments.memory.is_quiet) PrintSpeed(result);
  }
  if (arguments.shows_usage) PrintUsage(engine, results, usage);
  if (!arguments.result_json.empty()) {
    result_file.Write(ResultsJson(engine, results, prompts.lines));
  }
  if (!arguments.usage_json.empty()) usage_file.Write(usage.ToJson() + "\n");
  interrupt.EndIfRequested();
}

}  // namespace

void AddGenerate(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Continue a text, or several at once");
  command->add_option("model", arguments->model, "Packed file that `opst convert` wrote")
      ->required();
  CLI::Option* prompt = command->add_option("prompt", arguments->prompt,
                                            "Text to continue; without it standard input is read");
  command
      ->add_option("--prompts", arguments->prompts_file,
                   "Continue every line of this file, all of them together")
      ->type_name("FILE");
  AddGenerationFlags(*command, arguments->flags);
  AddMemoryFlags(*command, arguments->memory);
  command
      ->add_option(BothSpellings("--log-probs"), arguments->num_log_probs,
                   "Print the log-probability of each new token, and of this many likely ones")
      ->transform(IntegerFrom(0));
  command->add_flag(BothSpellings("--expert-usage"), arguments->shows_usage,
                    "Show which experts served which tokens");
  command
      ->add_option(BothSpellings("--usage-json"), arguments->usage_json,
                   "Write how often each expert served to this file")
      ->type_name("FILE");
  command
      ->add_option(BothSpellings("--result-json"), arguments->result_json,
                   "Write texts, tokens, probabilities and why they stopped to this file")
      ->type_name("FILE");
  command->add_flag("--force", arguments->overwrites,
                    "Replace existing files of --result-json and --usage-json");
  command->add_flag("-q,--quiet", arguments->memory.is_quiet, "Only the text");
  AddSettings(*command, settings);
  command->callback([settings, arguments, prompt] {
    arguments->has_prompt = prompt->count() > 0;
    RunGenerate(*settings, *arguments);
  });
}

}  // namespace opst::tool
