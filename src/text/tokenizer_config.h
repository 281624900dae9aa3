// Named special tokens ("bos_token") and chat templates of a tokenizer_config.json or its likes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_TOKENIZER_CONFIG_H_
#define OPST_TEXT_TOKENIZER_CONFIG_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace opst::text {

struct TokenizerConfig {
  // Every field "…_token" that is a text, or an object with a "content".
  std::map<std::string, std::string> tokens;
  // "chat_template": one text is the template "default"; a list names several.
  std::map<std::string, std::string> chat_templates;

  // `json` is tokenizer_config.json, special_tokens_map.json or chat_template.json; not trusted.
  // Throws kIo for what is no JSON object, or a field above of another type.
  static TokenizerConfig FromJson(std::string_view json, std::string_view file);

  std::optional<std::string> Token(const std::string& name) const;
};

}  // namespace opst::text

#endif  // OPST_TEXT_TOKENIZER_CONFIG_H_
