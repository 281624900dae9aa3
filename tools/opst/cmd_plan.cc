// `opst plan`: the memory that a packed model will need, before it is loaded.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "base/strings.h"
#include "command_line.h"
#include "commands.h"
#include "memory_check.h"

namespace opst::tool {
namespace {

struct PlanArguments {
  std::string model;
  bool has_context_length = false;
  MemoryPlanOptions options;
};

void PrintRow(const char* name, uint64_t bytes, const std::string& note) {
  std::printf("%-24s %10s  %s\n", name, FormatBytes(bytes).c_str(), note.c_str());
}

void RunPlan(const Settings& settings, const PlanArguments& arguments) {
  MemoryPlanOptions options = arguments.options;
  const MemoryPlan plan = PlanFile(settings, arguments.model, [&](const ModelConfig& config) {
    if (!arguments.has_context_length) {
      options.context_length = std::min(options.context_length, config.max_positions);
    }
    return options;
  });
  const uint64_t available = AvailableMemoryBytes();
  PrintRow("weights", plan.weight_bytes, "exact; mapped, so pages can be dropped and read again");
  PrintRow("keys and values", plan.kv_cache_bytes,
           Concat("exact; ", options.batch_size, " x ", options.context_length, " tokens, f32"));
  PrintRow("workspace", plan.workspace_bytes,
           Concat("at most; ", options.prefill_chunk, " prompt tokens per pass"));
  PrintRow("total", plan.total_bytes(), "");
  PrintRow(
      "rule of thumb", plan.rule_of_thumb_bytes(),
      Concat("1.2 x (base ", FormatBytes(plan.base_bytes), " + active experts ",
             FormatBytes(plan.active_expert_bytes), ", ", plan.num_active_experts, " per layer)"));
  if (available == UINT64_MAX) {
    std::printf("available memory: unknown\n");
    return;
  }
  PrintRow("available", available,
           plan.total_bytes() <= available ? "the plan fits" : "the plan does not fit");
}

}  // namespace

void AddPlan(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Show the memory that a packed model needs, without loading it");
  command->add_option("model", arguments->model, "Packed file")->required();
  CLI::Option* context_length =
      command
          ->add_option(
              BothSpellings("--context-length"), arguments->options.context_length,
              "Tokens of one text, prompt and answer; by default 2048, or what the model was "
              "trained for if that is less")
          ->transform(IntegerFrom(1));
  command->add_option(BothSpellings("--batch-size"), arguments->options.batch_size, "Texts at once")
      ->transform(IntegerFrom(1))
      ->capture_default_str();
  command
      ->add_option(BothSpellings("--prefill-chunk"), arguments->options.prefill_chunk,
                   "Prompt tokens per pass")
      ->transform(IntegerFrom(1))
      ->capture_default_str();
  AddSettings(*command, settings);
  command->callback([settings, arguments, context_length] {
    arguments->has_context_length = context_length->count() > 0;
    RunPlan(*settings, *arguments);
  });
}

}  // namespace opst::tool
