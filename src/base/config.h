// The one table of settings and the values in force; it does not know what a setting does.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_CONFIG_H_
#define OPST_BASE_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opst {

enum class ConfigType {
  kBool,     // 1/0, true/false, yes/no, on/off
  kInt,      // when the default is "auto", that word is accepted and means 0
  kFloat,    // finite
  kBytes,    // "4096", "256MB"
  kChoice,   // one of `choices`
  kChoices,  // several of `choices`, separated by commas
  kText,
};

// One setting. The environment variable, the flag of the tool and docs/environment.md follow from
// it.
struct ConfigRow {
  std::string_view key;          // snake_case; also the key in files and Python keyword arguments
  std::string_view environment;  // OPST_…
  ConfigType type = ConfigType::kText;
  std::string_view default_value;  // as a user would write it
  std::string_view help;           // one line, no full stop, no '|'
  std::string_view choices = {};   // "a|b|c"
  double min = 0;                  // of kInt and kFloat
  double max = std::numeric_limits<double>::infinity();
  std::string_view environment_alias = {};  // a foreign name, weaker than `environment`
};

std::span<const ConfigRow> ConfigTable();

// "--stage1-buffer-size"
std::string FlagName(const ConfigRow& row);
// What the value looks like: "on|off", "int >= 0", "bytes", "auto|reference".
std::string ValueHint(const ConfigRow& row);
// The whole text of docs/environment.md.
std::string ConfigDocs();

// Key and value as text.
using Settings = std::vector<std::pair<std::string, std::string>>;

// The OPST_* variables (and aliases) of this process, set and not empty. OPST_* variables that are
// neither settings nor known to the scripts are included: Config refuses them.
Settings ReadEnvironment();

// The keys of a file ending with .json (one flat object) or .ini (`key = value`, `#` and `;`
// comments, section lines without meaning). Throws kIo when the file cannot be read or is
// malformed, kInvalidArgument for an unknown or repeated key.
Settings ReadSettingsFile(const std::string& path);

// The values in force. Immutable, so it may be read from any thread.
// Precedence: overrides > environment > the file named by the setting `config` > default.
class Config {
 public:
  // `overrides` are flags and arguments; dashes in keys count as underscores, the last one wins.
  // Throws kInvalidArgument for an unknown key or variable, naming the nearest known one, and for a
  // value of the wrong type or range.
  explicit Config(const Settings& overrides = {}, const Settings& environment = ReadEnvironment());

  // A key that is not in the table or of another type throws kInvalidArgument.
  bool GetBool(std::string_view key) const;
  int64_t GetInt(std::string_view key) const;
  double GetFloat(std::string_view key) const;
  size_t GetBytes(std::string_view key) const;
  std::string_view GetChoice(std::string_view key) const;
  std::vector<std::string_view> GetChoices(std::string_view key) const;
  std::string_view GetText(std::string_view key) const;

  // Where the value comes from: "default", "argument", the variable or the file.
  std::string_view source(std::string_view key) const;

 private:
  struct Value {
    int64_t integer = 0;  // kBool, kInt, kBytes
    double real = 0;
    std::string text;  // trimmed; choices in lower case
    std::string source;
  };
  static Value Parse(const ConfigRow& row, std::string_view text, std::string_view source);
  void Apply(const Settings& settings, std::string_view source);
  void ApplyEnvironment(const Settings& environment);
  const Value& Get(std::string_view key, ConfigType type) const;

  std::vector<Value> values_;  // in the order of the table
};

// The row of a key (dashes count as underscores). Throws kInvalidArgument with the nearest known
// key.
const ConfigRow& FindConfigRow(std::string_view key, std::string_view where);

}  // namespace opst

#endif  // OPST_BASE_CONFIG_H_
