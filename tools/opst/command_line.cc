// Spelling of flags, the text for unknown ones, and integers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/strings.h"

namespace opst::tool {
namespace {

// The command that was named last: `opst bench layer` for its flags.
const CLI::App& ParsedCommand(const CLI::App& app) {
  const auto commands = app.get_subcommands();  // those on the command line
  return commands.empty() ? app : ParsedCommand(*commands.back());
}

std::string FullName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : FullName(*parent) + " " + command.get_name();
}

std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

std::vector<std::string> NamesOfCommands(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* child : command.get_subcommands({})) names.push_back(child->get_name());
  return names;
}

// Whole text or nothing.
template <typename Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace

std::vector<std::string> ParserArguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  bool are_flags = true;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    are_flags = are_flags && argument != "--";
    if (are_flags && argument.rfind("--", 0) == 0) {
      const auto end = argument.begin() +
                       static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size()));
      std::replace(argument.begin(), end, '_', '-');
    }
    arguments.push_back(std::move(argument));
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

std::string UnknownArgumentText(const CLI::App& app) {
  const CLI::App& command = ParsedCommand(app);
  std::string unknown;
  for (const std::string& argument : app.remaining(true)) {
    if (argument != "--") {
      unknown = argument.substr(0, argument.find('='));
      break;
    }
  }
  const bool is_flag = !unknown.empty() && unknown.front() == '-';
  const std::vector<std::string> names = is_flag ? FlagsOf(command) : NamesOfCommands(command);
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (is_flag && std::find(names.begin(), names.end(), unknown) != names.end()) {
    return Concat("[command line] flags of ", FullName(command),
                  " must stand behind the command and in front of any --; got ", unknown,
                  " elsewhere");
  }
  std::string hint;
  if (const std::string_view close = CloseName(unknown, known); !close.empty()) {
    hint = Concat("; the nearest known one is ", close);
  } else if (!is_flag && !names.empty()) {
    for (const std::string& name : names) hint += Concat(hint.empty() ? "; it has " : ", ", name);
  }
  return Concat("[command line] ", FullName(command), " has no ",
                is_flag ? "flag " : (names.empty() ? "use for another argument: " : "command "),
                unknown, hint);
}

std::string BothSpellings(const std::string& kebab) {
  std::string snake = kebab;
  std::replace(snake.begin() + 2, snake.end(), '-', '_');
  return kebab == snake ? kebab : kebab + "," + snake;
}

CLI::Validator IntegerFrom(int64_t min, uint64_t max) {
  const std::string range = max == INT64_MAX ? Concat(min, "..") : Concat(min, "..", max);
  const auto check = [min, max](std::string& text) -> std::string {
    if (const auto number = ParseWhole<uint64_t>(text)) {
      const bool fits = *number <= max && (min < 0 || *number >= static_cast<uint64_t>(min));
      text = fits ? Concat(*number) : text;
      if (fits) return {};
    } else if (const auto negative = ParseWhole<int64_t>(text); negative && *negative >= min) {
      text = Concat(*negative);
      return {};
    }
    return Concat("must be an integer from ", min, " to ", max, "; got ", text);
  };
  return CLI::Validator(check, range);
}

}  // namespace opst::tool
