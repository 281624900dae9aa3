// Compares rendered chat templates with what transformers made of them; see testdata/.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "io/file.h"
#include "opst/chat_template.h"
#include "opst/error.h"

namespace opst::text {
namespace {

// The order of keys is part of what templates print.
using Json = nlohmann::ordered_json;

// JSON null where rendering is refused, as the reference refuses it.
Json Rendered(const Json& goldens, const Json& row) {
  const auto value = [&](const char* table, const char* key) -> const Json& {
    return goldens[table][row[key].get<size_t>()];
  };
  const Json& tools = value("tools", "tools");
  ChatOptions options;
  options.adds_generation_prompt = row["add_generation_prompt"].get<bool>();
  options.tools_json = tools.is_null() ? "" : tools.dump();
  options.variables_json = value("variables", "variables").dump();
  try {
    const auto chat =
        ChatTemplate::Parse(value("templates", "template").get<std::string>(),
                            goldens["special_tokens"].get<std::map<std::string, std::string>>());
    return chat.RenderJson(value("messages", "messages").dump(), options);
  } catch (const Error&) {
    return nullptr;
  }
}

TEST(TemplateGoldenTest, TextsEqualThoseOfTransformers) {
  const Json goldens = Json::parse(ReadWholeFile(
      std::string(OPST_SOURCE_DIR) + "/src/text/testdata/template_goldens.json", 1 << 20));
  size_t num_texts = 0;
  for (const Json& row : goldens["cases"]) {
    EXPECT_EQ(Rendered(goldens, row), row["text"])
        << goldens["templates"][row["template"].get<size_t>()] << "\n"
        << goldens["messages"][row["messages"].get<size_t>()];
    num_texts += row["text"].is_null() ? 0 : 1;
  }
  EXPECT_GE(num_texts, 300u);
}

}  // namespace
}  // namespace opst::text
