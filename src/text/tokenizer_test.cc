// Tests of the public tokenizer and stream decoder on a handwritten tokenizer.json.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "text/testing/small_tokenizer.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;
const std::string kReplaced(kReplacementCharacter);

TEST(TokenizerTest, EncodesAndDecodesByHand) {
  const Tokenizer tokenizer = Load(SmallTokenizerJson());
  EXPECT_EQ(tokenizer.Encode("hello world"), (Ids{259, 262, 'l', 'd'}));
  EXPECT_EQ(tokenizer.Encode("hell"), Ids{258});
  EXPECT_EQ(tokenizer.Encode(""), Ids{});
  EXPECT_EQ(tokenizer.Decode(Ids{259, 262, 'l', 'd'}), "hello world");
  EXPECT_EQ(tokenizer.Encode("\u00E9"), (Ids{0xC3, 0xA9}));
}

TEST(TokenizerTest, KnowsItsTokens) {
  const Tokenizer tokenizer = Load(SmallTokenizerJson());
  EXPECT_EQ(tokenizer.vocab_size(), 264);
  EXPECT_EQ(tokenizer.TokenText(262), "Ġwor");
  EXPECT_EQ(tokenizer.TokenText(263), "<end>");
  EXPECT_FALSE(tokenizer.TokenText(264));
  EXPECT_FALSE(tokenizer.TokenText(-1));
  EXPECT_EQ(tokenizer.IdOf("Ġwor"), 262);
  EXPECT_EQ(tokenizer.IdOf("<end>"), 263);
  EXPECT_FALSE(tokenizer.IdOf("worl"));
  EXPECT_TRUE(tokenizer.IsAdded(263) && tokenizer.IsSpecial(263));
  EXPECT_FALSE(tokenizer.IsAdded(262) || tokenizer.IsSpecial(262));
}

TEST(TokenizerTest, SpecialTokensInTheText) {
  const Tokenizer tokenizer = Load(SmallTokenizerJson());
  EXPECT_EQ(tokenizer.Encode("he<end>he"), (Ids{256, 263, 256}));
  EXPECT_EQ(tokenizer.Encode("<end", {}), (Ids{'<', 'e', 'n', 'd'}));
  EXPECT_EQ(tokenizer.Encode("<end>", {.special_tokens_as_text = true}),
            (Ids{'<', 'e', 'n', 'd', '>'}));
  EXPECT_EQ(tokenizer.Decode(Ids{256, 263, 256}), "hehe");
  EXPECT_EQ(tokenizer.Decode(Ids{256, 263, 256}, {.skip_special_tokens = false}), "he<end>he");
}

TEST(TokenizerTest, TemplateAddsIdsOnRequest) {
  Json json = SmallTokenizerJson();
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "E"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
        {{"SpecialToken", {{"id", "W"}, {"type_id", 0}}}}}},
      {"special_tokens",
       {{"E", {{"id", "E"}, {"ids", {263}}, {"tokens", {"<end>"}}}},
        {"W", {{"id", "W"}, {"ids", {256, 257}}, {"tokens", {"he", "ll"}}}}}}};
  const Tokenizer tokenizer = Load(json);
  EXPECT_EQ(tokenizer.Encode("a"), (Ids{263, 'a', 256, 257}));
  EXPECT_EQ(tokenizer.Encode("a", {.add_special_tokens = false}), Ids{'a'});
  EXPECT_EQ(tokenizer.prefix_ids().size(), 1u);
  EXPECT_EQ(tokenizer.suffix_ids().size(), 2u);
}

TEST(TokenizerTest, InvalidUtf8IsEncodedAsReplacementCharacters) {
  const Tokenizer tokenizer = Load(SmallTokenizerJson());
  EXPECT_EQ(tokenizer.Encode("a\xFFz"), tokenizer.Encode("a\uFFFDz"));
  EXPECT_EQ(tokenizer.Encode("\xE4\xBD"), (Ids{0xEF, 0xBF, 0xBD}));
}

TEST(TokenizerTest, DecodesIdsWithoutATokenToNothing) {
  const Tokenizer tokenizer = Load(SmallTokenizerJson());
  EXPECT_EQ(tokenizer.Decode(Ids{-1, 'a', 264, 2'000'000'000, 'b'}), "ab");
  EXPECT_EQ(tokenizer.Decode(Ids{}), "");
}

TEST(TokenizerTest, DecodesBrokenBytesToReplacementCharacters) {
  const Tokenizer tokenizer = Load(SmallTokenizerJson());
  EXPECT_EQ(tokenizer.Decode(Ids{0xE4, 0xBD, 'a'}), kReplaced + "a");
  EXPECT_EQ(tokenizer.Decode(Ids{0x80, 0x80}), kReplaced + kReplaced);
  EXPECT_EQ(tokenizer.Decode(Ids{'a', 0xF0, 0x9F}), "a" + kReplaced);
}

TEST(TokenizerTest, CopiesOutliveTheOriginal) {
  auto original = std::make_unique<Tokenizer>(Load(SmallTokenizerJson()));
  const Tokenizer copy = *original;
  StreamDecoder stream(*original);
  original.reset();
  EXPECT_EQ(copy.Encode("hello"), Ids{259});
  EXPECT_EQ(stream.Push(259), "hello");
}

// A special token that also is "normalized" prints as itself, whatever the normalizer makes of it.
TEST(TokenizerTest, NormalizedSpecialTokenIsSkippedAndPrintedAsItself) {
  Json json = SmallTokenizerJson();
  json["normalizer"] = {{"type", "Prepend"}, {"prepend", " "}};
  json["added_tokens"][0]["normalized"] = true;
  const Tokenizer tokenizer = Load(json);
  EXPECT_EQ(tokenizer.Encode("<end>"), Ids{263});
  EXPECT_EQ(tokenizer.Decode(Ids{263}), "");
  EXPECT_EQ(tokenizer.Decode(Ids{263}, {.skip_special_tokens = false}), "<end>");
}

TEST(StreamDecoderTest, HoldsBackWhatMayBecomeACharacter) {
  const Tokenizer tokenizer = Load(SmallTokenizerJson());
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.Push(259), "hello");
  EXPECT_EQ(stream.Push(0xF0), "");
  EXPECT_EQ(stream.Push(0x9F), "");
  EXPECT_EQ(stream.Push(263), "");  // a skipped special token does not cut the character
  EXPECT_EQ(stream.Push(0x98), "");
  EXPECT_EQ(stream.Push(0x80), "\U0001F600");
  EXPECT_EQ(stream.Push(0xE4), "");
  EXPECT_EQ(stream.Push('a'), kReplaced + "a");
  EXPECT_EQ(stream.Push(0xE4), "");
  EXPECT_EQ(stream.Push(0xBD), "");
  EXPECT_EQ(stream.Flush(), kReplaced);
  EXPECT_EQ(stream.Flush(), "");
  EXPECT_EQ(stream.Push('b'), "b");
}

TEST(StreamDecoderTest, ByteFallbackRunWaitsForItsEnd) {
  const Tokenizer tokenizer =
      Load({{"model",
             {{"type", "BPE"},
              {"vocab", {{"▁a", 0}, {"<0xE4>", 1}, {"<0xBD>", 2}, {"<0xA0>", 3}}},
              {"merges", Json::array()}}},
            {"decoder",
             {{"type", "Sequence"},
              {"decoders",
               {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}},
                {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}}});
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.Push(0), "a");  // the first space was prepended when encoding
  EXPECT_EQ(stream.Push(0), " a");
  for (const int32_t id : {1, 2, 3}) EXPECT_EQ(stream.Push(id), "");
  EXPECT_EQ(stream.Push(0), "\u4F60 a");
  for (const int32_t id : {1, 2}) EXPECT_EQ(stream.Push(id), "");
  EXPECT_EQ(stream.Flush(), kReplaced + kReplaced);
  EXPECT_EQ(stream.Push(0), "a");  // a new text
}

// A SentencePiece-like decoder: "▁" is a space, bytes are tokens, one leading space goes.
Json SentencePieceJson() {
  Json vocab = {{"<unk>", 0}, {"▁", 1}, {"▁hello", 2}, {"▁world", 3}, {"s", 4}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    vocab[name] = 5 + byte;
  }
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {{"version", "1.0"},
          {"model",
           {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}, {"byte_fallback", true}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders", {replace, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip}}}}};
}

TEST(StreamDecoderTest, ATextBehindAPromptIsWhatAllTokensDecodeToWithoutThePrompt) {
  const auto byte = [](int value) { return 5 + value; };
  Json metaspace = SentencePieceJson();
  metaspace["decoder"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  const std::vector<std::pair<Ids, Ids>> cases{
      {{2}, {3, 4, 3}},
      {{2, 4}, {4}},
      {{}, {3, 3}},
      {{2, byte(0xC3), byte(0xA9)}, {3}},  // the run of bytes ends behind the prompt
      {{2, byte(0xC3), byte(0xA9)}, {byte(0xC3), byte(0xA9), 3}},
      {{2, byte(0xC3), byte(0xA9)}, {}}};
  for (const Json& json : {SentencePieceJson(), metaspace, SmallTokenizerJson()}) {
    const Tokenizer tokenizer = Load(json);
    for (const auto& [prompt, answer] : cases) {
      Ids all = prompt;
      all.insert(all.end(), answer.begin(), answer.end());
      StreamDecoder stream(tokenizer, prompt);
      std::string text = tokenizer.Decode(prompt);
      for (const int32_t id : answer) text += stream.Push(id);
      EXPECT_EQ(text + stream.Flush(), tokenizer.Decode(all));
      text.clear();
      for (const int32_t id : answer) text += stream.Push(id);  // a new text
      EXPECT_EQ(text + stream.Flush(), tokenizer.Decode(answer));
    }
  }
}

TEST(StreamDecoderTest, BytesOfAPromptMayBecomeACharacterBehindIt) {
  const Tokenizer tokenizer = Load(SmallTokenizerJson());
  StreamDecoder stream(tokenizer, Ids{'a', 0xC3});
  EXPECT_EQ(stream.Push(0xA9), "\u00E9");
  EXPECT_EQ(stream.Push('b'), "b");
}

}  // namespace
}  // namespace opst::text
