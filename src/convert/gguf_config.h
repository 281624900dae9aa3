// The config.json that a GGUF file's metadata amounts to. Tensors only say what metadata leaves
// out: vocabulary, tied head, dense layers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_GGUF_CONFIG_H_
#define OPST_CONVERT_GGUF_CONFIG_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_checkpoint.h"

namespace opst {

struct GgufConfig {
  nlohmann::ordered_json config;          // with model_type
  std::vector<std::string> unknown_keys;  // of the architecture, that no rule here names
};

// Throws kIo for an architecture without rules (naming those that have some), a missing or wrong
// value, and for settings that cannot be expressed.
GgufConfig ReadGgufConfig(const GgufCheckpoint& checkpoint);

}  // namespace opst

#endif  // OPST_CONVERT_GGUF_CONFIG_H_
