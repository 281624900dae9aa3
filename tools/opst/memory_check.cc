// Plans a file's memory and compares it with what the machine can give.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "memory_check.h"

#include <cstdio>

#include "base/check.h"
#include "base/strings.h"
#include "command_line.h"

namespace opst::tool {

void AddMemoryFlags(CLI::App& command, MemoryFlags& flags) {
  command.add_flag(BothSpellings("--ignore-memory"), flags.ignores_memory,
                   "Go on when the memory plan does not fit the available memory");
}

MemoryPlan PlanFile(const Settings& settings, const std::string& path,
                    const std::function<MemoryPlanOptions(const ModelConfig&)>& options) {
  Settings mapped = settings;
  mapped.values.emplace_back("load", "map");  // the last value of a setting counts
  const Context context = mapped.MakeContext();
  const Model model = Model::Load(context, path);
  return PlanMemory(context, model, options(model.config()));
}

void CheckMemory(const MemoryPlan& plan, const MemoryFlags& flags) {
  const uint64_t available = AvailableMemoryBytes();
  const std::string facts =
      Concat(FormatBytes(plan.total_bytes()), " (weights ", FormatBytes(plan.weight_bytes),
             ", keys and values up to ", FormatBytes(plan.kv_cache_bytes), ", workspace up to ",
             FormatBytes(plan.workspace_bytes), ")");
  const std::string left =
      available == UINT64_MAX ? "an unknown amount" : FormatBytes(static_cast<size_t>(available));
  if (!flags.is_quiet) {
    std::fprintf(stderr, "memory: %s of %s available\n", facts.c_str(), left.c_str());
  }
  if (plan.total_bytes() <= available || flags.ignores_memory) return;
  Throw(ErrorKind::kOutOfMemory, "memory",
        "the plan must fit the available memory; take a shorter --context-length or "
        "--max-new-tokens, close other programs, or go on with --ignore-memory",
        Concat(facts, " for ", left));
}

}  // namespace opst::tool
