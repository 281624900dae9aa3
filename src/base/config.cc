// Merges the sources of settings and parses their values; files are read in config_file.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"

namespace opst {

// Of config_table.cc: variables with our prefix that are not settings.
std::span<const std::string_view> ScriptVariables();

namespace {

constexpr std::string_view kPrefix = "OPST_";

std::string Quoted(std::string_view text) { return Concat('"', text, '"'); }

std::string WithUnderscores(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool IsAlias(std::string_view variable) {
  return std::any_of(ConfigTable().begin(), ConfigTable().end(), [&](const ConfigRow& row) {
    return !row.environment_alias.empty() && row.environment_alias == variable;
  });
}

size_t IndexOf(const ConfigRow& row) { return static_cast<size_t>(&row - ConfigTable().data()); }

const ConfigRow& FindVariable(std::string_view variable) {
  std::vector<std::string_view> known;
  for (const ConfigRow& row : ConfigTable()) {
    if (row.environment == variable || row.environment_alias == variable) return row;
    known.push_back(row.environment);
  }
  ThrowInvalid("environment", "OPST_ variables must be settings of the library",
               Concat(Quoted(variable), ", the nearest known one is ",
                      Quoted(NearestName(variable, known))));
}

std::optional<bool> ParseBool(std::string_view text) {
  const std::string word = ToLower(text);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

void CheckChoice(const ConfigRow& row, std::string_view word, std::string_view source) {
  const std::vector<std::string_view> choices = Split(row.choices, '|');
  if (std::find(choices.begin(), choices.end(), word) != choices.end()) return;
  const std::string_view close = CloseName(word, choices);
  ThrowInvalid(source, Concat(row.key, " must be ", ValueHint(row)),
               close.empty() ? Quoted(word)
                             : Concat(Quoted(word), ", the nearest known one is ", Quoted(close)));
}

}  // namespace

const ConfigRow& FindConfigRow(std::string_view key, std::string_view where) {
  const std::string name = WithUnderscores(key);
  std::vector<std::string_view> known;
  for (const ConfigRow& row : ConfigTable()) {
    if (row.key == name) return row;
    known.push_back(row.key);
  }
  ThrowInvalid(
      where, "keys must be settings of the library",
      Concat(Quoted(key), ", the nearest known one is ", Quoted(NearestName(name, known))));
}

Settings ReadEnvironment() {
  Settings settings;
  const std::span<const std::string_view> foreign = ScriptVariables();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || Trim(text.substr(equals + 1)).empty()) continue;
    const std::string_view name = text.substr(0, equals);
    if (std::find(foreign.begin(), foreign.end(), name) != foreign.end()) continue;
    if (name.starts_with(kPrefix) || IsAlias(name)) {
      settings.emplace_back(name, text.substr(equals + 1));
    }
  }
  return settings;
}

Config::Config(const Settings& overrides, const Settings& environment) {
  for (const ConfigRow& row : ConfigTable()) {
    values_.push_back(Parse(row, row.default_value, "default"));
  }
  ApplyEnvironment(environment);
  Apply(overrides, "argument");
  if (const std::string path(GetText("config")); !path.empty()) {
    // The file is weaker than what named it, so the stronger sources are applied again.
    Apply(ReadSettingsFile(path), path);
    ApplyEnvironment(environment);
    Apply(overrides, "argument");
  }
}

void Config::Apply(const Settings& settings, std::string_view source) {
  for (const auto& [key, text] : settings) {
    const ConfigRow& row = FindConfigRow(key, source);
    values_[IndexOf(row)] = Parse(row, text, source);
  }
}

void Config::ApplyEnvironment(const Settings& environment) {
  // Aliases first, so that our own name wins whatever the order in the environment.
  for (const bool alias_turn : {true, false}) {
    for (const auto& [variable, text] : environment) {
      if (IsAlias(variable) != alias_turn) continue;
      const ConfigRow& row = FindVariable(variable);
      values_[IndexOf(row)] = Parse(row, text, variable);
    }
  }
}

Config::Value Config::Parse(const ConfigRow& row, std::string_view text, std::string_view source) {
  Value value;
  value.text = Trim(text);
  value.source = source;
  const auto refuse = [&] {
    ThrowInvalid(source, Concat(row.key, " must be ", ValueHint(row)), Quoted(text));
  };
  if (row.type == ConfigType::kBool) {
    const std::optional<bool> flag = ParseBool(value.text);
    if (!flag) refuse();
    value.integer = *flag ? 1 : 0;
  } else if (row.type == ConfigType::kInt) {
    const bool is_auto = row.default_value == "auto" && ToLower(value.text) == "auto";
    const std::optional<int64_t> number = is_auto ? 0 : ParseInt(value.text);
    if (!number || static_cast<double>(*number) < row.min ||
        static_cast<double>(*number) > row.max) {
      refuse();
    }
    value.integer = *number;
  } else if (row.type == ConfigType::kFloat) {
    const std::optional<double> number = ParseFloat(value.text);
    if (!number || *number < row.min || *number > row.max) refuse();
    value.real = *number;
  } else if (row.type == ConfigType::kBytes) {
    const std::optional<size_t> bytes = ParseBytes(value.text);
    if (!bytes) refuse();
    value.integer = static_cast<int64_t>(*bytes);
  } else if (row.type == ConfigType::kChoice) {
    value.text = ToLower(value.text);
    CheckChoice(row, value.text, source);
  } else if (row.type == ConfigType::kChoices) {
    value.text = ToLower(value.text);
    for (const std::string_view word : Split(value.text, ',')) CheckChoice(row, word, source);
  }
  return value;
}

const Config::Value& Config::Get(std::string_view key, ConfigType type) const {
  const ConfigRow& row = FindConfigRow(key, "config");
  OPST_CHECK_ARG(row.type == type, "config", "a setting is read as the type it has in the table",
                 Quoted(key), " of ", ValueHint(row));
  return values_[IndexOf(row)];
}

bool Config::GetBool(std::string_view key) const {
  return Get(key, ConfigType::kBool).integer != 0;
}
int64_t Config::GetInt(std::string_view key) const { return Get(key, ConfigType::kInt).integer; }
double Config::GetFloat(std::string_view key) const { return Get(key, ConfigType::kFloat).real; }
size_t Config::GetBytes(std::string_view key) const {
  return static_cast<size_t>(Get(key, ConfigType::kBytes).integer);
}
std::string_view Config::GetChoice(std::string_view key) const {
  return Get(key, ConfigType::kChoice).text;
}
std::vector<std::string_view> Config::GetChoices(std::string_view key) const {
  return Split(Get(key, ConfigType::kChoices).text, ',');
}
std::string_view Config::GetText(std::string_view key) const {
  return Get(key, ConfigType::kText).text;
}

std::string_view Config::source(std::string_view key) const {
  return values_[IndexOf(FindConfigRow(key, "config"))].source;
}

}  // namespace opst
