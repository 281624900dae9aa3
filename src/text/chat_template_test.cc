// Where templates are found, what they are given, and that hostile ones end in errors. Their
// language is compared with Jinja itself in tests/text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/chat_template.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "opst/error.h"

namespace opst {
namespace {

using Files = std::map<std::string, std::string, std::less<>>;

std::optional<ChatTemplate> Find(const Files& files) {
  return ChatTemplate::Find([&](std::string_view name) -> std::optional<std::string_view> {
    const auto found = files.find(name);
    if (found == files.end()) return std::nullopt;
    return found->second;
  });
}

std::string Render(const std::string& source, const ChatOptions& options = {}) {
  const std::vector<ChatMessage> messages{{"user", "hi"}};
  return ChatTemplate::Parse(source, {{"bos_token", "<s>"}}).Render(messages, options);
}

// The error of parsing or rendering.
std::string ErrorOf(const std::string& source, ErrorKind kind = ErrorKind::kIo) {
  return opst::ErrorOf(kind, [&] { Render(source); });
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ChatTemplateTest, IsFoundInEveryPlaceItMayBe) {
  const std::vector<ChatMessage> none;
  const auto text = [&](const Files& files) { return Find(files)->Render(none); };
  EXPECT_EQ(text({{"chat_template.jinja", "J"}}), "J");
  EXPECT_EQ(text({{"tokenizer_config.json", R"({"chat_template": "C"})"}}), "C");
  EXPECT_EQ(text({{"chat_template.json", R"({"chat_template": "P"})"}}), "P");
  EXPECT_EQ(text({{"tokenizer_config.json",
                   R"({"chat_template": [{"name": "tool_use", "template": "T"},
                                         {"name": "default", "template": "D"}]})"}}),
            "D");
  // The file of its own wins over the field, the field over the processor's file.
  EXPECT_EQ(text({{"chat_template.jinja", "J"},
                  {"tokenizer_config.json", R"({"chat_template": "C"})"},
                  {"chat_template.json", R"({"chat_template": "P"})"}}),
            "J");
  EXPECT_EQ(text({{"tokenizer_config.json", R"({"chat_template": "C"})"},
                  {"chat_template.json", R"({"chat_template": "P"})"}}),
            "C");
  EXPECT_FALSE(Find({}));
  EXPECT_FALSE(Find({{"tokenizer_config.json", R"({"chat_template": null})"}}));
}

TEST(ChatTemplateTest, SpecialTokensMayBeTextsOrObjects) {
  const std::vector<ChatMessage> none;
  const Files files{
      {"chat_template.jinja", "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}"},
      {"special_tokens_map.json", R"({"bos_token": "old", "eos_token": "</s>"})"},
      {"tokenizer_config.json",
       R"({"bos_token": {"content": "<s>", "lstrip": false}, "pad_token": null,
           "add_bos_token": true})"}};
  EXPECT_EQ(Find(files)->Render(none), "<s></s>False");
}

TEST(ChatTemplateTest, NamedTemplatesAreChosenByTools) {
  const Files files{{"tokenizer_config.json",
                     R"({"chat_template": [{"name": "tool_use", "template": "T"},
                                           {"name": "default", "template": "D"}]})"}};
  const std::vector<ChatMessage> none;
  EXPECT_EQ(Find(files)->Render(none, {.tools_json = "[]"}), "T");
}

TEST(ChatTemplateTest, OptionsAreVariables) {
  EXPECT_EQ(Render("{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}"
                   "{% if add_generation_prompt %}>{% endif %}"),
            "<s>user:hi>");
  EXPECT_EQ(Render("{{ add_generation_prompt }}", {.adds_generation_prompt = false}), "False");
  EXPECT_EQ(Render("{{ tools[0].name }}{{ a.b }}",
                   {.tools_json = R"([{"name": "f"}])", .variables_json = R"({"a": {"b": 3}})"}),
            "f3");
  EXPECT_EQ(Render("{{ strftime_now('%Y') }}", {.now = 1577880000}), "2020");
}

TEST(ChatTemplateTest, BrokenInputIsTheCallersFault) {
  const auto chat = ChatTemplate::Parse("x");
  for (const char* messages : {"", "{", "{}", "[1]", "\"a\""}) {
    EXPECT_THROW(chat.RenderJson(messages), Error) << messages;
  }
  EXPECT_THROW(chat.RenderJson("[]", {.tools_json = "{}"}), Error);
  EXPECT_THROW(chat.RenderJson("[]", {.variables_json = "[]"}), Error);
  EXPECT_THROW(chat.RenderJson(std::string(100000, '[')), Error);
  EXPECT_EQ(chat.RenderJson("[{\"role\": \"user\", \"content\": \"\xFF\"}]"), "x");
}

TEST(ChatTemplateTest, ErrorsNameTheLineOrTheReason) {
  EXPECT_TRUE(Has(ErrorOf("a\nb {% if %}"), "line 2"));
  EXPECT_TRUE(Has(ErrorOf("\n\n{{ x | nosuch }}"), "a filter must be a known one; got line 3"));
  EXPECT_TRUE(
      Has(ErrorOf("{{ raise_exception('roles must alternate') }}"), "roles must alternate"));
  EXPECT_TRUE(Has(ErrorOf("{% include 'other' %}"), "a block must be if, for"));
  EXPECT_TRUE(Has(ErrorOf("{{ messages.x.y }}"), "'x', which is undefined"));
}

// Each of these would take hours, gigabytes or the whole stack.
TEST(ChatTemplateTest, HostileTemplatesEndInErrors) {
  const std::string deep(100000, '(');
  EXPECT_TRUE(Has(ErrorOf("{% for a in range(1000000000) %}{% endfor %}"), "budget"));
  EXPECT_TRUE(
      Has(ErrorOf("{% set r = range(3000) %}{% for a in r %}{% for b in r %}{% for c in r %}"
                  "{% endfor %}{% endfor %}{% endfor %}"),
          "budget"));
  EXPECT_TRUE(Has(ErrorOf("{{ 'a' * 1000000000000 }}"), "memory"));
  EXPECT_TRUE(Has(ErrorOf("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}"
                          "{% set ns.s = ns.s + ns.s %}{% endfor %}"),
                  "memory"));
  EXPECT_TRUE(Has(ErrorOf("{{ 'aaaa' | replace('', 'b' * 100000000) }}"), "memory"));
  EXPECT_TRUE(Has(ErrorOf("{{ [[0] * 10000000] * 100 }}"), "memory"));
  EXPECT_TRUE(Has(ErrorOf("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), "so deeply"));
  EXPECT_TRUE(Has(ErrorOf("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), "so deeply"));
  EXPECT_TRUE(Has(ErrorOf("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}"), "so deeply"));
  EXPECT_TRUE(Has(ErrorOf("{% set n = namespace(a=[]) %}{% for i in range(5000) %}"
                          "{% set n.a = [n.a] %}{% endfor %}{{ n.a == n.a ~ n.a }}"),
                  "so deeply"));
  EXPECT_TRUE(Has(ErrorOf("{{ " + deep + "1" + std::string(100000, ')') + " }}"), "nesting"));
  EXPECT_TRUE(Has(ErrorOf("{{ " + std::string(100000, '-') + "1 }}"), "nesting"));
  std::string ifs;
  for (int i = 0; i < 50000; ++i) ifs += "{% if 1 %}";
  EXPECT_TRUE(Has(ErrorOf(ifs), "nesting"));
  std::string sum = "1";
  for (int i = 0; i < 100000; ++i) sum += "+1";
  EXPECT_TRUE(Has(ErrorOf("{{ " + sum + " }}"), "so long"));
  std::string calls = "x";
  for (int i = 0; i < 100000; ++i) calls += ".a";
  EXPECT_TRUE(Has(ErrorOf("{{ " + calls + " }}"), "so long"));
  EXPECT_TRUE(Has(ErrorOf(std::string(2 << 20, 'x')), "bytes"));
  EXPECT_TRUE(Has(ErrorOf("{{ 9223372036854775807 + 1 }}"), "64 bits"));
  EXPECT_TRUE(Has(ErrorOf("{{ 2 ** 1000000000 }}"), "64 bits"));
  EXPECT_TRUE(Has(ErrorOf("{{ (-9223372036854775807 - 1) // -1 }}"), "divisor"));
  EXPECT_TRUE(Has(ErrorOf("{{ 1 % 0 }}"), "divisor"));
  EXPECT_TRUE(Has(ErrorOf("{{ '%999999d' % 1 }}"), "wide"));
}

// Pieces of templates in random order: any outcome but a crash or a hang.
TEST(ChatTemplateTest, RandomTemplatesRenderOrFail) {
  static const std::vector<std::string> kPieces{
      "{{",       "}}",        "{%",         "%}",
      "{#",       "#}",        "{%-",        "-%}",
      "{{-",      "-}}",       "if",         "else",
      "elif",     "endif",     "for",        "in",
      "endfor",   "set",       "endset",     "macro",
      "m",        "(",         ")",          "endmacro",
      "x",        "=",         "==",         "|",
      "trim",     "tojson",    "join",       "[",
      "]",        ":",         ",",          ".",
      "a",        "'",         "\"",         "1",
      "-",        "+",         "*",          "~",
      "messages", "loop",      "is",         "not",
      "defined",  "and",       "or",         "raw",
      "endraw",   "\n",        " ",          "{",
      "}",        "namespace", "range",      "call",
      "filter",   "break",     "generation", "\xF0\x9F\x98\x80",
      "\xFF"};
  std::mt19937 random(11);
  int rendered = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string source = round % 2 == 0 ? "{{ " : "{% ";
    for (unsigned i = 0; i < random() % 12; ++i) {
      source += kPieces[random() % kPieces.size()] + (random() % 2 == 0 ? " " : "");
    }
    source += round % 2 == 0 ? " }}" : " %}";
    try {
      Render(source);
      ++rendered;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(rendered, 100);
}

}  // namespace
}  // namespace opst
