// Finds a checkpoint's templates and gives them their variables.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/chat_template.h"

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "io/json_tree.h"
#include "text/jinja/template.h"
#include "text/tokenizer_config.h"
#include "text/utf8.h"

namespace opst {
namespace {

using nlohmann::ordered_json;
using text::jinja::Template;
using text::jinja::Value;
using text::jinja::Variables;

constexpr std::string_view kWhere = "chat_template";
enum class Container { kList, kObject };

// A list or an object given by the caller, whose fault errors are. Conversations may be long.
ordered_json ParseJson(std::string_view json, std::string_view what, Container container) {
  constexpr JsonTreeLimits kLimits{.max_bytes = SIZE_MAX, .max_depth = 64};
  ordered_json value;
  try {
    value = ReadJsonTree(text::RepairUtf8(json), std::string(what), kLimits);
  } catch (const Error& error) {
    throw Error(ErrorKind::kInvalidArgument, error.what());
  }
  const bool is_list = container == Container::kList;
  OPST_CHECK_ARG(is_list ? value.is_array() : value.is_object(), kWhere,
                 Concat(what, is_list ? " must be a list" : " must be an object"),
                 value.type_name());
  return value;
}

// As transformers does: the reasoning of a message is there under both names that templates read.
void NameReasoning(ordered_json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!message.contains(name) || message[name].is_null()) continue;
    const ordered_json reasoning = message[name];
    ordered_json named = {{"thinking", reasoning}};
    for (const auto& [key, value] : message.items()) named[key] = value;
    named["reasoning_content"] = reasoning;
    message = std::move(named);
    return;
  }
}

ordered_json ParseMessages(std::string_view json) {
  ordered_json messages = ParseJson(json, "messages", Container::kList);
  for (ordered_json& message : messages) {
    OPST_CHECK_ARG(message.is_object(), kWhere, "a message must be an object", message.type_name());
    NameReasoning(message);
  }
  return messages;
}

std::tm LocalTime(std::optional<int64_t> seconds) {
  const std::time_t time = seconds ? static_cast<std::time_t>(*seconds) : std::time(nullptr);
  std::tm result = {};
  localtime_r(&time, &result);
  return result;
}

}  // namespace

std::optional<ChatTemplate> ChatTemplate::Find(const FileReader& file) {
  ChatTemplate result;
  std::map<std::string, std::string> sources;
  // The one that counts is read last.
  for (const char* name :
       {"chat_template.json", "special_tokens_map.json", "tokenizer_config.json"}) {
    const auto json = file(name);
    if (!json) continue;
    const auto config = text::TokenizerConfig::FromJson(*json, name);
    for (const auto& [token, content] : config.tokens) result.special_tokens_[token] = content;
    if (!config.chat_templates.empty()) sources = config.chat_templates;
  }
  if (const auto source = file("chat_template.jinja")) sources["default"] = std::string(*source);
  if (sources.empty()) return std::nullopt;
  for (const auto& [name, source] : sources) {
    result.templates_[name] = std::make_shared<const Template>(source);
  }
  return result;
}

ChatTemplate ChatTemplate::Parse(std::string_view source,
                                 std::map<std::string, std::string> special_tokens) {
  ChatTemplate result;
  result.templates_["default"] = std::make_shared<const Template>(source);
  result.special_tokens_ = std::move(special_tokens);
  return result;
}

std::string ChatTemplate::Render(std::span<const ChatMessage> messages,
                                 const ChatOptions& options) const {
  ordered_json list = ordered_json::array();
  for (const ChatMessage& message : messages) {
    list.push_back(
        {{"role", text::RepairUtf8(message.role)}, {"content", text::RepairUtf8(message.content)}});
  }
  return RenderJson(list.dump(), options);
}

std::string ChatTemplate::RenderJson(std::string_view messages_json,
                                     const ChatOptions& options) const {
  return NamingOutOfMemory(kWhere, [&] {
    const ordered_json messages = ParseMessages(messages_json);
    Variables variables;
    for (const auto& [name, content] : special_tokens_) variables.emplace_back(name, content);
    variables.emplace_back("messages", Value::FromJson(messages));
    variables.emplace_back("add_generation_prompt", options.adds_generation_prompt);
    const bool has_tools = !options.tools_json.empty();
    variables.emplace_back("documents", text::jinja::None{});
    variables.emplace_back("tools", has_tools ? Value::FromJson(ParseJson(
                                                    options.tools_json, "tools", Container::kList))
                                              : Value(text::jinja::None{}));
    if (!options.variables_json.empty()) {
      const ordered_json more = ParseJson(options.variables_json, "variables", Container::kObject);
      for (const auto& [name, value] : more.items()) {
        variables.emplace_back(name, Value::FromJson(value));
      }
    }
    auto chosen = templates_.find("default");
    if (const auto of_tools = templates_.find("tool_use");
        has_tools && of_tools != templates_.end()) {
      chosen = of_tools;
    }
    OPST_CHECK_IO(chosen != templates_.end(), kWhere,
                  "a list of templates must have one named default", templates_.begin()->first);
    return chosen->second->Render(variables, LocalTime(options.now));
  });
}

}  // namespace opst
