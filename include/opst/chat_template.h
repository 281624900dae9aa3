// ChatTemplate: messages of a conversation as the one text that a model was trained to continue.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CHAT_TEMPLATE_H_
#define OPST_CHAT_TEMPLATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace opst {

namespace text::jinja {
class Template;
}

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", or what the template knows
  std::string content;
};

struct ChatOptions {
  // Whether the text ends with the beginning of the assistant's answer.
  bool adds_generation_prompt = true;
  // A JSON list of tools as the template wants them, usually OpenAI's; "" = none.
  std::string tools_json = {};
  // A JSON object with more variables, e.g. {"enable_thinking": false}; "" = none.
  std::string variables_json = {};
  // Seconds since 1970 for templates that write the date; none = now. Shown as local time.
  std::optional<int64_t> now = {};
};

// The Jinja templates of Hugging Face checkpoints, rendered as transformers renders them:
// apply_chat_template(messages, tools, add_generation_prompt, tokenize=False).
//
// Supported: for, if, set, macro, call, filter, generation, break, continue, raw; the filters,
// tests and methods that templates of language models use; anything else is refused by name.
// Python's integers are 64 bits here, keys of dictionaries are texts. Templates are not trusted:
// they see nothing but their variables, and steps, depth and memory of a rendering are bounded.
// Errors (kIo): a template that cannot be parsed, fails, refuses its messages, or exceeds a bound.
// Errors (kInvalidArgument): messages, tools or variables that are not the JSON asked for. Thread
// safety: immutable; may be used from several threads. Copies are cheap.
class ChatTemplate {
 public:
  // `file` gives the text of a file of the checkpoint. The template is the one of
  // chat_template.jinja, else tokenizer_config.json (one text, or a list of named ones), else
  // chat_template.json; special tokens come from tokenizer_config.json and special_tokens_map.json,
  // as texts or as objects. None when there is no template.
  using FileReader = std::function<std::optional<std::string_view>(std::string_view name)>;
  static std::optional<ChatTemplate> Find(const FileReader& file);

  // `special_tokens`: "bos_token" and the like, variables of the template.
  static ChatTemplate Parse(std::string_view source,
                            std::map<std::string, std::string> special_tokens = {});

  std::string Render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;
  // The same for messages with more fields than role and content: a JSON list of objects.
  std::string RenderJson(std::string_view messages_json, const ChatOptions& options = {}) const;

 private:
  // By name: "default", and "tool_use", which is taken when there are tools.
  std::map<std::string, std::shared_ptr<const text::jinja::Template>> templates_;
  std::map<std::string, std::string> special_tokens_;
};

}  // namespace opst

#endif  // OPST_CHAT_TEMPLATE_H_
