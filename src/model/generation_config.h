// What generation_config.json says about the model: end tokens. Sampling is the caller's choice.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_GENERATION_CONFIG_H_
#define OPST_MODEL_GENERATION_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opst {

// eos_token_id, a number or a list; empty when missing. `json` is not trusted; `file` is for
// errors. Throws kIo for what is no JSON object, and for ids that are not below `vocab_size`.
std::vector<int64_t> GenerationEndTokens(std::string_view json, std::string file,
                                         int64_t vocab_size);

}  // namespace opst

#endif  // OPST_MODEL_GENERATION_CONFIG_H_
