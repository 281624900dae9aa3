// Reads the few fields of a tokenizer_config.json that matter here; the others are Python's.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_config.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/json_document.h"

namespace opst::text {
namespace {

void AddToken(const std::string& key, const nlohmann::json& value, std::string_view file,
              std::map<std::string, std::string>& tokens) {
  if (value.is_null() || value.is_boolean()) return;  // "add_bos_token" is no token
  const nlohmann::json* text = &value;
  if (value.is_object() && value.contains("content")) text = &value["content"];
  OPST_CHECK_IO(text->is_string(), file, Concat(key, " must be a text or an object with a content"),
                text->type_name());
  tokens[key] = text->get<std::string>();
}

void AddTemplates(const nlohmann::json& value, std::string_view file,
                  std::map<std::string, std::string>& templates) {
  if (value.is_null()) return;
  if (value.is_string()) {
    templates["default"] = value.get<std::string>();
    return;
  }
  OPST_CHECK_IO(value.is_array(), file, "chat_template must be a text or a list of named ones",
                value.type_name());
  for (const nlohmann::json& entry : value) {
    const bool is_named = entry.is_object() && entry.contains("name") &&
                          entry["name"].is_string() && entry.contains("template") &&
                          entry["template"].is_string();
    OPST_CHECK_IO(is_named, file, "an entry of chat_template must have a name and a template",
                  entry.type_name());
    templates[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  }
}

}  // namespace

TokenizerConfig TokenizerConfig::FromJson(std::string_view json, std::string_view file) {
  const JsonDocument document = ReadJsonDocument(json, file);
  OPST_CHECK_IO(document.root.is_object(), file, "must be a JSON object",
                document.root.type_name());
  TokenizerConfig config;
  for (const auto& [key, value] : document.root.items()) {
    if (key == "chat_template") AddTemplates(value, file, config.chat_templates);
    if (key.ends_with("_token")) AddToken(key, value, file, config.tokens);
  }
  return config;
}

std::optional<std::string> TokenizerConfig::Token(const std::string& name) const {
  const auto found = tokens.find(name);
  if (found == tokens.end()) return std::nullopt;
  return found->second;
}

}  // namespace opst::text
