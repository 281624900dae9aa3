// The memory plan of `opst plan`, and the refusal of commands that would not fit.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_MEMORY_CHECK_H_
#define OPST_TOOLS_OPST_MEMORY_CHECK_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "commands.h"
#include "opst/memory_plan.h"

namespace opst::tool {

// Tokens of a text that a plan counts at most: more than any machine holds.
inline constexpr int64_t kMaxPlannedLength = int64_t{1} << 40;

// Whether a command may go on when its plan does not fit.
struct MemoryFlags {
  bool ignores_memory = false;
  bool is_quiet = false;
};
void AddMemoryFlags(CLI::App& command, MemoryFlags& flags);

// The plan of a file, which is mapped for that and given back; what for may depend on the model.
MemoryPlan PlanFile(const Settings& settings, const std::string& path,
                    const std::function<MemoryPlanOptions(const ModelConfig&)>& options);

// One line about the plan to standard error unless quiet. Throws kOutOfMemory when the plan does
// not fit the memory that is available, before any of it is taken.
void CheckMemory(const MemoryPlan& plan, const MemoryFlags& flags);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_MEMORY_CHECK_H_
