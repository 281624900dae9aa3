// The commands of the tool and what they share: the settings of the command line and progress bars.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_COMMANDS_H_
#define OPST_TOOLS_OPST_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "opst/context.h"

namespace opst::tool {

// Settings given as flags; filled while the command line is parsed, read when a command runs.
struct Settings {
  std::vector<std::pair<std::string, std::string>> values;
  Context MakeContext() const { return Context({.settings = values}); }
};

// Adds a flag for every setting of the configuration table to `command`.
void AddSettings(CLI::App& command, std::shared_ptr<Settings> settings);

// Each adds one command with its flags; the command runs in its callback and throws opst::Error.
void AddConvert(CLI::App& app);
void AddInspect(CLI::App& app);
void AddGenerate(CLI::App& app);
void AddChat(CLI::App& app);
void AddPerplexity(CLI::App& app);
void AddPlan(CLI::App& app);
void AddBench(CLI::App& app);
void AddCompare(CLI::App& app);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_COMMANDS_H_
