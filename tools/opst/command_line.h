// What the tool adds to its parser: one spelling of flags, and the nearest known flag for a wrong
// one. It runs no command.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_COMMAND_LINE_H_
#define OPST_TOOLS_OPST_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace opst::tool {

// The arguments without the program's name, last one first, as CLI::App::parse takes them. In flags
// --snake_case becomes --kebab-case; what stands behind `--` or `=` stays as it is.
std::vector<std::string> ParserArguments(int argc, const char* const* argv);

// "[command line] opst generate has no flag --temprature; the nearest known one is --temperature"
// for the first flag or word that no command of `app` knows; `app` has failed to parse it.
std::string UnknownArgumentText(const CLI::App& app);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_COMMAND_LINE_H_
