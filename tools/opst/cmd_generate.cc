// `opst generate`: text from a packed model, streamed as it appears.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "commands.h"
#include "opst/engine.h"
#include "progress.h"
#include "usage_table.h"

namespace opst::tool {
namespace {

struct GenerateArguments {
  std::string model;
  std::string prompt;
  GenerateOptions options;
  bool has_prompt = false;
  bool shows_usage = false;
  bool is_quiet = false;
};

std::string ReadStandardInput() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// Model text may hold control characters; a terminal must not obey them.
std::string Harmless(std::string_view text) {
  static const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  std::string result;
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    if (is_terminal && is_control && c != '\n' && c != '\t') {
      result += "\xEF\xBF\xBD";
    } else {
      result += c;
    }
  }
  return result;
}

void Print(std::string_view text) {
  const std::string safe = Harmless(text);
  std::fwrite(safe.data(), 1, safe.size(), stdout);
  std::fflush(stdout);
}

void PrintSpeed(const GenerateResult& result) {
  const auto prompt = static_cast<double>(result.prompt_tokens.size());
  const auto decoded = static_cast<double>(result.new_tokens.size()) - 1;
  std::fprintf(stderr, "%.0f prompt tokens at %.1f/s", prompt, prompt / result.prefill_seconds);
  if (decoded > 0) {
    std::fprintf(stderr, ", %.0f new tokens at %.1f/s", decoded + 1,
                 decoded / result.decode_seconds);
  }
  std::fprintf(stderr, "\n");
}

void RunGenerate(const Settings& settings, GenerateArguments& arguments) {
  const Context context = settings.MakeContext();
  const Engine engine = Engine::Load(context, arguments.model);
  const std::string prompt = arguments.has_prompt ? arguments.prompt : ReadStandardInput();
  Progress progress("prompt");
  ExpertUsage usage;
  GenerateOptions options = arguments.options;
  options.on_prefill = [&](int64_t done, int64_t total) {
    progress.Show(static_cast<uint64_t>(done), static_cast<uint64_t>(total));
    if (done < total) return;
    progress.Clear();
    Print(prompt);
  };
  options.on_text = [](std::string_view text) {
    Print(text);
    return true;
  };
  if (arguments.shows_usage) {
    options.on_routing = [&](int64_t layer, const RoutingPlan& plan) { usage.Add(layer, plan); };
  }
  const GenerateResult result = engine.Generate(context, prompt, options);
  Print("\n");
  if (!arguments.is_quiet) PrintSpeed(result);
  if (arguments.shows_usage) PrintUsage(engine, result, usage);
}

void AddSampling(CLI::App& command, SamplingOptions& sampling) {
  command
      .add_option("--temperature", sampling.temperature,
                  "Randomness; 0 takes the most likely token each time")
      ->capture_default_str();
  command.add_option("--top-k,--top_k", sampling.top_k, "Draw among the k most likely; 0 = all")
      ->capture_default_str();
  command
      .add_option("--top-p,--top_p", sampling.top_p,
                  "Draw among the fewest tokens that reach this probability")
      ->capture_default_str();
  command.add_option("--seed", sampling.seed, "The same seed gives the same text")
      ->capture_default_str();
}

}  // namespace

void AddGenerate(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Continue a text");
  command->add_option("model", arguments->model, "Packed file that `opst convert` wrote")
      ->required();
  CLI::Option* prompt = command->add_option("prompt", arguments->prompt,
                                            "Text to continue; without it standard input is read");
  command
      ->add_option("-n,--max-new-tokens,--max_new_tokens", arguments->options.max_new_tokens,
                   "Tokens to write at most")
      ->capture_default_str();
  AddSampling(*command, arguments->options.sampling);
  command
      ->add_option("--prefill-chunk,--prefill_chunk", arguments->options.prefill_chunk,
                   "Prompt tokens per pass")
      ->capture_default_str();
  command->add_flag("--expert-usage,--expert_usage", arguments->shows_usage,
                    "Show which experts served which tokens");
  command->add_flag("-q,--quiet", arguments->is_quiet, "Only the text");
  AddSettings(*command, settings);
  command->callback([settings, arguments, prompt] {
    arguments->has_prompt = prompt->count() > 0;
    RunGenerate(*settings, *arguments);
  });
}

}  // namespace opst::tool
