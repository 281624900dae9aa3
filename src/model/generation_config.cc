// Reads the end tokens of generation_config.json.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/generation_config.h"

#include <utility>

#include "model/config_reader.h"

namespace opst {

std::vector<int64_t> GenerationEndTokens(std::string_view json, std::string file,
                                         int64_t vocab_size) {
  return ConfigReader(json, std::move(file)).IntegerOrList("eos_token_id", 0, vocab_size - 1);
}

}  // namespace opst
