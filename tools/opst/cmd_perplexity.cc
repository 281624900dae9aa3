// `opst perplexity`: how well a packed model predicts a text file.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <span>

#include "base/check.h"
#include "command_line.h"
#include "commands.h"
#include "generation_flags.h"
#include "io/file.h"
#include "memory_check.h"
#include "opst/engine.h"
#include "text/utf8.h"

namespace opst::tool {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;

struct PerplexityArguments {
  std::string model;
  std::string text;
  PerplexityOptions options;
  ExpertFlags experts;
  MemoryFlags memory{.is_quiet = true};
  bool omits_begin_tokens = false;
};

// Windows side by side, and the whole window in one pass at most.
MemoryPlanOptions PlanOptions(const PerplexityOptions& options, uint64_t text_bytes) {
  const auto most = static_cast<int64_t>(text_bytes / static_cast<uint64_t>(options.window)) + 1;
  const int64_t window = std::min(options.window, kMaxPlannedLength);
  return {.context_length = window,
          .batch_size = options.decodes ? std::min(options.batch_size, most) : 1,
          .prefill_chunk = window};
}

void RunPerplexity(const Settings& settings, const PerplexityArguments& arguments) {
  const Context context = settings.MakeContext();
  const std::string text = ReadWholeFile(arguments.text, kMaxTextBytes);
  OPST_CHECK_IO(text::IsValidUtf8(text), arguments.text, "the text must be UTF-8",
                "bytes that are not");
  const MemoryPlan plan = PlanFile(settings, arguments.model, [&](const ModelConfig&) {
    return PlanOptions(arguments.options, text.size());
  });
  CheckMemory(plan, arguments.memory);
  const Engine engine = Engine::Load(context, arguments.model);
  const std::vector<int32_t> tokens =
      engine.tokenizer().Encode(text, {.add_special_tokens = false});
  PerplexityOptions options = arguments.options;
  options.experts = arguments.experts.Choice();
  engine.model().CheckExperts(options.experts);
  if (!arguments.omits_begin_tokens) {
    const std::span<const int32_t> prefix = engine.tokenizer().prefix_ids();
    options.begin_tokens.assign(prefix.begin(), prefix.end());
  }
  const PerplexityResult result = engine.Perplexity(context, tokens, options);
  std::printf("perplexity %.4f (nll %.6f) over %lld predicted tokens in %lld windows of %lld\n",
              result.perplexity, result.nll, static_cast<long long>(result.num_predicted),
              static_cast<long long>(result.num_windows), static_cast<long long>(options.window));
  for (const int32_t token : options.begin_tokens) {
    std::printf("every window begins with %s\n",
                std::string(engine.tokenizer().TokenText(token).value_or("")).c_str());
  }
  std::printf("experts per token %.4f\n", result.experts_per_token);
}

}  // namespace

void AddPerplexity(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  auto arguments = std::make_shared<PerplexityArguments>();
  CLI::App* command =
      app.add_subcommand("perplexity", "Measure how well a model predicts a text file");
  command->add_option("model", arguments->model, "Packed file")->required();
  command->add_option("text", arguments->text, "UTF-8 text file")->required();
  command
      ->add_option("--window", arguments->options.window,
                   "Tokens per window; windows do not overlap, an incomplete last one is dropped")
      ->transform(IntegerFrom(2))
      ->capture_default_str();
  command->add_flag("--decode", arguments->options.decodes,
                    "Feed one token per pass, as generation does; the result is the same");
  command
      ->add_option(BothSpellings("--batch-size"), arguments->options.batch_size,
                   "Windows side by side with --decode")
      ->transform(IntegerFrom(1))
      ->capture_default_str();
  command->add_flag(BothSpellings("--no-begin-tokens"), arguments->omits_begin_tokens,
                    "Windows without the tokens that the tokenizer puts in front of a text");
  AddExpertFlags(*command, arguments->experts);
  AddMemoryFlags(*command, arguments->memory);
  AddSettings(*command, settings);
  command->callback([settings, arguments] { RunPerplexity(*settings, *arguments); });
}

}  // namespace opst::tool
