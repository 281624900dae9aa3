// The handwritten tokenizer of the tests.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/testing/small_tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <fstream>

#include "base/testing/errors.h"
#include "text/byte_alphabet.h"

namespace opst::text {

nlohmann::json SmallTokenizerJson() {
  nlohmann::json vocab = nlohmann::json::object();
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string token;
    AppendBytesAsCharacters(std::string(1, static_cast<char>(byte)), token);
    vocab[token] = byte;
  }
  int next = 256;
  for (const char* token : {"he", "ll", "hell", "hello", "Ġw", "or", "Ġwor"}) vocab[token] = next++;
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  return {{"version", "1.0"},
          {"added_tokens",
           {{{"id", 263},
             {"content", "<end>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", {"h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or"}}}}};
}

Tokenizer Load(const nlohmann::json& json) { return Tokenizer::FromJson(json.dump(), "t.json"); }

std::string LoadError(std::string_view json) {
  return ErrorIfAny(ErrorKind::kIo, [&] { Tokenizer::FromJson(json, "t.json"); });
}

nlohmann::json ReadTestData(const std::string& name) {
  std::ifstream file(std::string(OPST_SOURCE_DIR) + "/src/text/testdata/" + name);
  return nlohmann::json::parse(file);
}

}  // namespace opst::text
