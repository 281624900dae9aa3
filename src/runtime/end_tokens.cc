// Reads end tokens from the four places where checkpoints have them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/end_tokens.h"

#include <algorithm>

#include "model/generation_config.h"
#include "text/tokenizer_config.h"

namespace opst {

std::vector<int32_t> EndTokens(const Model& model, const Tokenizer& tokenizer) {
  std::vector<int64_t> tokens = model.config().end_tokens;
  if (const auto json = model.TextFile("generation_config.json")) {
    const auto more =
        GenerationEndTokens(*json, "generation_config.json", model.config().vocab_size);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto json = model.TextFile(file);
    if (!json) continue;
    const auto name = text::TokenizerConfig::FromJson(*json, file).Token("eos_token");
    const auto id = name ? tokenizer.IdOf(*name) : std::nullopt;
    if (id) tokens.push_back(*id);
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return {tokens.begin(), tokens.end()};
}

}  // namespace opst
