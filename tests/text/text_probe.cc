// Shows Python tests what the tokenizer and the chat templates make of their input; no tests
// itself.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
//
//   text_probe tokenize TOKENIZER.json   stdin: one text per line, in hex
//                                        stdout: its ids, a tab, the text they decode to, in hex
//   text_probe gguf FILE                 stdout: the tokenizer.json that is made of its metadata
//   text_probe render                    stdin: a JSON list of {template, messages, tools,
//   variables,
//                                        special_tokens, add_generation_prompt, now}
//                                        stdout: a JSON list of {text} or {error}
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "convert/gguf_tokenizer.h"
#include "io/file.h"
#include "io/gguf.h"
#include "opst/chat_template.h"
#include "opst/error.h"
#include "opst/tokenizer.h"

namespace {

using nlohmann::ordered_json;

std::string BytesOfHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

void Tokenize(const char* path) {
  const auto tokenizer =
      opst::Tokenizer::FromJson(opst::ReadWholeFile(path, uint64_t{1} << 30), path);
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<int32_t> ids = tokenizer.Encode(BytesOfHex(line));
    for (size_t i = 0; i < ids.size(); ++i) std::printf("%s%d", i == 0 ? "" : " ", ids[i]);
    std::printf("\t");
    for (const char c : tokenizer.Decode(ids, {.skip_special_tokens = false})) {
      std::printf("%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
    std::printf("\n");
  }
}

void TokenizerOfGguf(const char* path) {
  const std::string bytes = opst::ReadWholeFile(path, uint64_t{1} << 30);
  const opst::GgufMetadata metadata =
      opst::ParseGguf(std::as_bytes(std::span(bytes)), path).metadata;
  for (const opst::TextFile& file : opst::GgufTextFiles(metadata)) {
    if (file.name == "tokenizer.json") std::cout << file.content;
  }
}

ordered_json RenderCase(const ordered_json& row) {
  try {
    const auto chat = opst::ChatTemplate::Parse(
        row["template"].get<std::string>(),
        row.value("special_tokens", std::map<std::string, std::string>()));
    opst::ChatOptions options;
    options.adds_generation_prompt = row.value("add_generation_prompt", false);
    if (row.contains("tools") && !row["tools"].is_null()) options.tools_json = row["tools"].dump();
    if (row.contains("variables")) options.variables_json = row["variables"].dump();
    if (row.contains("now")) options.now = row["now"].get<int64_t>();
    return {{"text", chat.RenderJson(row["messages"].dump(), options)}};
  } catch (const opst::Error& error) {
    return {{"error", error.what()}};
  }
}

void Render() {
  const std::string text{std::istreambuf_iterator<char>(std::cin),
                         std::istreambuf_iterator<char>()};
  ordered_json results = ordered_json::array();
  for (const ordered_json& row : ordered_json::parse(text)) results.push_back(RenderCase(row));
  std::cout << results.dump() << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "tokenize" && argc == 3) {
    Tokenize(argv[2]);
  } else if (command == "gguf" && argc == 3) {
    TokenizerOfGguf(argv[2]);
  } else if (command == "render" && argc == 2) {
    Render();
  } else {
    std::fprintf(stderr, "usage: text_probe tokenize TOKENIZER.json | gguf FILE | render\n");
    return 2;
  }
  return 0;
}
