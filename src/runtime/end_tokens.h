// Which tokens end a text: the union of everything a checkpoint says about it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_RUNTIME_END_TOKENS_H_
#define OPST_RUNTIME_END_TOKENS_H_

#include <cstdint>
#include <vector>

#include "opst/model.h"
#include "opst/tokenizer.h"

namespace opst {

// Ascending ids from eos_token_id of config.json and generation_config.json (a number or a list)
// and eos_token of tokenizer_config.json and special_tokens_map.json (a text or an object).
// Throws kIo for ids outside the vocabulary and for files that are no JSON objects.
std::vector<int32_t> EndTokens(const Model& model, const Tokenizer& tokenizer);

}  // namespace opst

#endif  // OPST_RUNTIME_END_TOKENS_H_
