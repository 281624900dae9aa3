// What the tool adds to its parser: both spellings of flags, the nearest known flag for a wrong
// one, and integers that are exact. It runs no command.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_COMMAND_LINE_H_
#define OPST_TOOLS_OPST_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace opst::tool {

// The arguments without the program's name, last one first, as CLI::App::parse takes them. In flags
// --snake_case becomes --kebab-case; what stands behind `--` or `=` stays as it is.
std::vector<std::string> ParserArguments(int argc, const char* const* argv);

// "[command line] opst generate has no flag --temprature; the nearest known one is --temperature"
// for the first flag or word that no command of `app` knows; `app` has failed to parse it.
std::string UnknownArgumentText(const CLI::App& app);

// "--top-k,--top_k": both spellings of a flag.
std::string BothSpellings(const std::string& kebab);

// For transform() of an option: decimal integers from min to max, and nothing else. The parser by
// itself takes "-1" for a large unsigned number, "010" for 8, and what overflows for the largest.
CLI::Validator IntegerFrom(int64_t min, uint64_t max = INT64_MAX);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_COMMAND_LINE_H_
