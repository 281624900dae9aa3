// Tokenizers read from GGUF metadata: byte-level merges as they stand, SentencePiece against the
// merging rule of its own library, and what cannot be read.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "io/gguf.h"
#include "io/testing/files.h"
#include "io/testing/gguf_builder.h"
#include "opst/tokenizer.h"

namespace opst {
namespace {

using testing::ExpectIoError;
using testing::GgufBuilder;

std::map<std::string, std::string> TextFiles(const GgufBuilder& builder) {
  const std::string bytes = builder.Bytes();
  std::map<std::string, std::string> files;
  for (const TextFile& file :
       GgufTextFiles(ParseGguf(std::as_bytes(std::span(bytes)), "m.gguf").metadata)) {
    files[file.name] = file.content;
  }
  return files;
}

Tokenizer TokenizerOf(const GgufBuilder& builder) {
  return Tokenizer::FromJson(TextFiles(builder).at("tokenizer.json"));
}

GgufBuilder ByteLevel(std::string_view pre) {
  GgufBuilder builder;
  builder.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", pre)
      .Strings("tokenizer.ggml.tokens",
               {"<s>", "<end>", "a", "b", "1", "Ġ", "ab", "Ġab", "11", "<user>"})
      .Array<int32_t>("tokenizer.ggml.token_type", GgufType::kI32, {3, 3, 1, 1, 1, 1, 1, 1, 1, 4})
      .Strings("tokenizer.ggml.merges", {"a b", "Ġ ab", "1 1"})
      .U32("tokenizer.ggml.bos_token_id", 0)
      .U32("tokenizer.ggml.eos_token_id", 1);
  return builder;
}

TEST(GgufTokenizerTest, ByteLevelMergesAddedTokensAndDigits) {
  const Tokenizer plain = TokenizerOf(ByteLevel("gpt-2"));
  EXPECT_EQ(plain.Encode("ab ab11"), (std::vector<int32_t>{6, 7, 8}));
  EXPECT_EQ(plain.Encode("<end>a<user>b"), (std::vector<int32_t>{1, 2, 9, 3}));
  EXPECT_TRUE(plain.IsSpecial(1));
  EXPECT_TRUE(plain.IsAdded(9));
  EXPECT_FALSE(plain.IsSpecial(9));
  EXPECT_EQ(plain.Decode(plain.Encode("ab ab11")), "ab ab11");
  // These cut every digit off before merging.
  for (const char* pre : {"smollm", "deepseek-llm", "deepseek-coder"}) {
    EXPECT_EQ(TokenizerOf(ByteLevel(pre)).Encode("11 ab"), (std::vector<int32_t>{4, 4, 7})) << pre;
  }
}

TEST(GgufTokenizerTest, BeginAndEndTokensAsTheFileAsks) {
  GgufBuilder builder = ByteLevel("qwen2");
  EXPECT_EQ(TokenizerOf(builder).Encode("a"), (std::vector<int32_t>{2}));
  builder.Bool("tokenizer.ggml.add_bos_token", true).Bool("tokenizer.ggml.add_eos_token", true);
  EXPECT_EQ(TokenizerOf(builder).Encode("a"), (std::vector<int32_t>{0, 2, 1}));
  EXPECT_EQ(TokenizerOf(ByteLevel("llama-bpe")).Encode("a"), (std::vector<int32_t>{0, 2}));
}

TEST(GgufTokenizerTest, EveryPreTokenizerOfTheTableIsReadable) {
  for (const char* pre : {"gpt-2", "olmo", "smollm", "starcoder", "refact", "llama-bpe", "llama3",
                          "llama-v3", "dbrx", "glm4", "chatglm-bpe", "qwen2", "gpt-4o", "tekken",
                          "deepseek-llm", "deepseek-coder", "deepseek-v3"}) {
    EXPECT_FALSE(TokenizerOf(ByteLevel(pre)).Encode("ab ab 11").empty()) << pre;
  }
}

TEST(GgufTokenizerTest, CompanionsCarrySpecialTokensTemplateAndEndTokens) {
  GgufBuilder builder = ByteLevel("gpt-2");
  builder.String("tokenizer.chat_template", "{{ messages }}").U32("tokenizer.ggml.eot_token_id", 9);
  const auto files = TextFiles(builder);
  const auto config = nlohmann::json::parse(files.at("tokenizer_config.json"));
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(config["eos_token"], "<end>");
  EXPECT_EQ(config["chat_template"], "{{ messages }}");
  const auto generation = nlohmann::json::parse(files.at("generation_config.json"));
  EXPECT_EQ(generation["eos_token_id"], nlohmann::json({1, 9}));
}

constexpr std::string_view kSpace = "▁";

// A SentencePiece vocabulary: <unk>, <s>, </s>, 256 bytes, characters, then random longer pieces
// that are each the join of two earlier ones, all with different scores.
struct Pieces {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<float> scores = {0, 0, 0};
  std::vector<int32_t> types = {2, 3, 3};
  std::map<std::string, size_t> ids;

  void Add(const std::string& piece, float score, int32_t type) {
    if (type == 1) ids[piece] = tokens.size();
    tokens.push_back(piece);
    scores.push_back(score);
    types.push_back(type);
  }
};

Pieces RandomPieces(std::mt19937& random) {
  Pieces pieces;
  const char* hex = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    pieces.Add({'<', '0', 'x', hex[byte / 16], hex[byte % 16], '>'}, 0, 6);
  }
  std::vector<std::string> known = {"a", "b", "c", "é", std::string(kSpace)};
  float score = -1;
  for (const std::string& character : known) pieces.Add(character, score -= 1000, 1);
  score = -1;
  while (known.size() < 80) {
    const std::string joined = known[random() % known.size()] + known[random() % known.size()];
    if (joined.size() > 12 || pieces.ids.contains(joined)) continue;
    known.push_back(joined);
    pieces.Add(joined, score -= 1 + static_cast<float>(random() % 5), 1);
  }
  return pieces;
}

std::vector<std::string> Characters(const std::string& text) {
  std::vector<std::string> characters;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80) characters.emplace_back();
    characters.back() += c;
  }
  return characters;
}

// SentencePiece's rule: again and again, of all neighbours whose join is a piece, the join with the
// highest score, the leftmost of equal ones. Unknown characters become their bytes.
std::vector<int32_t> ByScores(const Pieces& pieces, const std::string& text) {
  std::vector<std::string> parts = Characters(text);
  while (true) {
    size_t best = parts.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = pieces.ids.find(parts[i] + parts[i + 1]);
      if (found == pieces.ids.end()) continue;
      if (best == parts.size() || pieces.scores[found->second] >
                                      pieces.scores[pieces.ids.at(parts[best] + parts[best + 1])]) {
        best = i;
      }
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& part : parts) {
    if (const auto found = pieces.ids.find(part); found != pieces.ids.end()) {
      ids.push_back(static_cast<int32_t>(found->second));
    } else {
      for (const char c : part) ids.push_back(3 + static_cast<int32_t>(static_cast<uint8_t>(c)));
    }
  }
  return ids;
}

TEST(GgufTokenizerTest, SentencePieceMergesAreThoseOfItsScores) {
  std::mt19937 random(3);
  for (int round = 0; round < 5; ++round) {
    const Pieces pieces = RandomPieces(random);
    GgufBuilder builder;
    builder.String("tokenizer.ggml.model", "llama")
        .Strings("tokenizer.ggml.tokens", pieces.tokens)
        .Array("tokenizer.ggml.scores", GgufType::kF32, pieces.scores)
        .Array("tokenizer.ggml.token_type", GgufType::kI32, pieces.types)
        .U32("tokenizer.ggml.bos_token_id", 1)
        .U32("tokenizer.ggml.eos_token_id", 2)
        .U32("tokenizer.ggml.unknown_token_id", 0);
    const Tokenizer tokenizer = TokenizerOf(builder);
    const std::vector<std::string> alphabet = {"a", "b", "c", "é", " ", "z", "漢"};
    for (int text_round = 0; text_round < 200; ++text_round) {
      std::string text, marked(kSpace);
      for (unsigned i = 0; i < 1 + random() % 12; ++i) {
        const std::string& character = alphabet[random() % alphabet.size()];
        text += character;
        marked += character == " " ? std::string(kSpace) : character;
      }
      std::vector<int32_t> expected = ByScores(pieces, marked);
      expected.insert(expected.begin(), 1);
      EXPECT_EQ(tokenizer.Encode(text), expected) << text;
      EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text);
    }
  }
}

TEST(GgufTokenizerTest, WhatCannotBeReadIsRefusedByName) {
  const auto refuse = [](GgufBuilder builder, std::initializer_list<std::string_view> parts) {
    ExpectIoError(parts, [&] { TextFiles(builder); });
  };
  refuse(GgufBuilder().String("tokenizer.ggml.model", "bert"), {"gpt2 or llama", "\"bert\""});
  refuse(ByteLevel("chameleon"), {"tokenizer.ggml.pre must be one of gpt-2", "\"chameleon\""});
  refuse(ByteLevel("gpt-2").U32("tokenizer.ggml.padding_token_id", 10), {"from 0 to 9", "10"});
  refuse(GgufBuilder()
             .String("tokenizer.ggml.model", "gpt2")
             .Strings("tokenizer.ggml.tokens", {"a"})
             .Array<int32_t>("tokenizer.ggml.token_type", GgufType::kI32, {1, 1}),
         {"one entry per token", "2 for 1"});
  refuse(GgufBuilder()
             .String("tokenizer.ggml.model", "llama")
             .Strings("tokenizer.ggml.tokens", {"a", "b"})
             .Array<float>("tokenizer.ggml.scores", GgufType::kF32, {1})
             .U32("tokenizer.ggml.bos_token_id", 0),
         {"tokenizer.ggml.scores", "1 for 2"});
  EXPECT_TRUE(TextFiles(GgufBuilder()).empty());
}

TEST(GgufTokenizerTest, TokensThatAreNotUtf8AreAnError) {
  GgufBuilder builder;
  builder.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "gpt-2")
      .Strings("tokenizer.ggml.tokens", {"a\xff"})
      .Strings("tokenizer.ggml.merges", {});
  ExpectIoError({"tokens and templates must be UTF-8"}, [&] { TextFiles(builder); });
}

}  // namespace
}  // namespace opst
