// Flags of the configuration table, the same for every command.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"
#include "commands.h"

namespace opst::tool {

void AddSettings(CLI::App& command, std::shared_ptr<Settings> settings) {
  for (const ConfigRow& row : ConfigTable()) {
    const std::string key(row.key);
    command
        .add_option_function<std::string>(
            FlagName(row),
            [settings, key](const std::string& value) {
              settings->values.emplace_back(key, value);
            },
            std::string(row.help))
        ->type_name(ValueHint(row))
        ->group("Settings");
  }
}

}  // namespace opst::tool
