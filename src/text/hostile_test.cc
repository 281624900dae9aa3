// Tokenizer files that are broken, hostile or beyond what is supported: errors name file, field,
// value.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "base/testing/errors.h"
#include "text/json_document.h"
#include "text/testing/small_tokenizer.h"

namespace opst::text {
namespace {

using Json = nlohmann::json;

std::string Raw(std::string_view text) { return LoadError(text); }

std::string Changed(const std::function<void(Json&)>& change) {
  Json json = SmallTokenizerJson();
  change(json);
  return LoadError(json.dump());
}

// `json` with the value at a JSON pointer replaced.
std::string With(const char* pointer, const Json& value) {
  return Changed([&](Json& json) { json[Json::json_pointer(pointer)] = value; });
}

void ExpectError(const std::string& error, std::string_view part) {
  EXPECT_EQ(error.rfind("[t.json] ", 0), 0u) << error;
  EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_LT(error.size(), 500u) << "an error must not carry the file";
}

TEST(HostileTokenizerTest, TheUnchangedFileLoads) {
  EXPECT_EQ(Changed([](Json&) {}), "no error");
}

TEST(HostileTokenizerTest, NotJson) {
  ExpectError(Raw(""), "valid JSON");
  ExpectError(Raw("{"), "valid JSON");
  ExpectError(Raw("{} {}"), "valid JSON");
  ExpectError(Raw("[1, 2"), "valid JSON");
  ExpectError(Raw("{\"a\": \"\xFF\"}"), "valid JSON");
  ExpectError(Raw("{\"a\": \"\\ud800\"}"), "valid JSON");
  ExpectError(Raw("{\"a\": 1e999}"), "valid JSON");
  ExpectError(Raw(std::string_view("{}\0{}", 5)), "NUL");
  ExpectError(Raw("[]"), "the file must be an object");
  ExpectError(Raw("3"), "the file must be an object");
  ExpectError(Raw("{}"), "model must be given; got nothing");
}

TEST(HostileTokenizerTest, DeepNestingAndManyValues) {
  ExpectError(Raw(std::string(1'000'000, '[')), "nested deeper than 64");
  std::string objects;
  for (int i = 0; i < 100; ++i) objects += "{\"a\":";
  ExpectError(Raw(objects), "nested deeper than 64");
  std::string many = "[0";
  for (int i = 0; i < 1'100'000; ++i) many += ",0";
  ExpectError(Raw(many + "]"), "at most 1000000 values");
}

TEST(HostileTokenizerTest, LimitsOfTables) {
  const JsonLimits limits{.max_bytes = 100, .max_entries = 2, .max_token_bytes = 4};
  const auto error = [&](std::string_view json) {
    return ErrorIfAny(ErrorKind::kIo, [&] { ReadJsonDocument(json, "t.json", limits); });
  };
  ExpectError(error(std::string(101, ' ')), "at most 100 bytes");
  ExpectError(error(R"({"model": {"vocab": {"a": 0, "b": 1, "c": 1}}})"), "at most 2 tokens");
  ExpectError(error(R"({"model": {"vocab": {"a": 2}}})"), "integers from 0 to 1");
  ExpectError(error(R"({"model": {"vocab": {"abcde": 0}}})"), "at most 4 bytes");
  ExpectError(error(R"({"model": {"merges": ["a b", "a b", "a b"]}})"), "at most 2 merges");
  ExpectError(error(R"({"model": {"merges": [["abcde", "b"]]}})"), "at most 4 bytes");
  EXPECT_EQ(error(R"({"model": {"vocab": {"a": 0, "b": 1}, "merges": ["a b", ["a", "b"]]}})"),
            "no error");
}

TEST(HostileTokenizerTest, KeysThatStandTwice) {
  ExpectError(Raw(R"({"model": 1, "model": 2})"), "a key twice");
  ExpectError(Raw(R"({"model": {"type": "BPE", "merges": [], "vocab": {"a": 0, "a": 1}}})"),
              "model.vocab must not hold a token twice; got \"a\" with ids 0 and 1");
  ExpectError(Raw(R"({"model": {"type": "BPE", "vocab": {}, "vocab": {"a": 0}, "merges": []}})"),
              "a key twice");
}

TEST(HostileTokenizerTest, Vocabulary) {
  ExpectError(With("/model/vocab/new", 5), "model.vocab must give each id to one token; got");
  for (const Json& id : {Json(-1), Json(4'194'304), Json(18446744073709551615u), Json(1.5),
                         Json("1"), Json(nullptr), Json(true), Json::array(), Json::object()}) {
    ExpectError(With("/model/vocab/new", id),
                "ids must be integers from 0 to 4194303; got model.vocab, token \"new\"");
  }
  ExpectError(With("/model/vocab", Json::object()), "model.vocab must hold a token");
  ExpectError(With("/model/vocab", Json::array({1})), "model.vocab must be an object of token: id");
  ExpectError(With("/model/vocab", "a"), "model.vocab must be an object of token: id");
}

TEST(HostileTokenizerTest, Merges) {
  const char* rule =
      "merges must be strings with one space in them or pairs of strings; got model.merges, entry "
      "0";
  for (const Json& merge :
       {Json("ab"), Json("a b c"), Json(""), Json(1), Json(nullptr), Json::object()}) {
    ExpectError(With("/model/merges", Json::array({merge})), rule);
  }
  const char* pair_rule = "pairs of strings; got model.merges, entry 1";
  for (const Json& merge : {Json::array({"a"}), Json::array({"a", "b", "c"}), Json::array(),
                            Json::array({"a", 1}), Json::array({"a", Json::array({"b"})})}) {
    ExpectError(With("/model/merges", Json::array({merge})), pair_rule);
  }
  ExpectError(With("/model/merges", {"h e", "h q"}),
              "model.merges[1] must join tokens of the vocabulary to one of it; got \"hq\"");
  ExpectError(With("/model/merges", {"nope e"}), "got \"nope\"");
  ExpectError(With("/model/merges", "h e"), "model.merges must be an array of pairs");
}

TEST(HostileTokenizerTest, ModelThatIsNotSupported) {
  ExpectError(With("/model/type", "Unigram"),
              "model.type must be BPE, the one supported model; got \"Unigram\"");
  ExpectError(Changed([](Json& json) { json["model"].erase("type"); }), "model.type must be given");
  ExpectError(With("/model/dropout", 0.1), "model.dropout must be null or 0");
  ExpectError(With("/model/end_of_word_suffix", "</w>"),
              "model.end_of_word_suffix must be null or empty");
  ExpectError(With("/model/continuing_subword_prefix", "##"),
              "model.continuing_subword_prefix must be null");
  ExpectError(With("/model/byte_fallback", "yes"),
              "model.byte_fallback must be true or false; got \"yes\"");
  ExpectError(With("/model/unk_token", 3), "model.unk_token must be a string; got 3");
  ExpectError(With("/model/magic", 3), "model must have no unknown field; got \"magic\"");
  EXPECT_EQ(With("/model/dropout", 0.0), "no error");
  EXPECT_EQ(With("/model/end_of_word_suffix", ""), "no error");
}

TEST(HostileTokenizerTest, PartsThatAreNotSupported) {
  ExpectError(With("/version", "2.0"), "version must be 1.0; got \"2.0\"");
  ExpectError(With("/extra", 1), "the file must have no unknown field; got \"extra\"");
  ExpectError(With("/normalizer", {{"type", "Lowercase"}}), "normalizer.type must be one of NFC");
  ExpectError(With("/normalizer", "NFC"), "normalizer must be an object; got \"NFC\"");
  ExpectError(With("/pre_tokenizer", {{"type", "Whitespace"}}),
              "pre_tokenizer.type must be one of ByteLevel");
  ExpectError(With("/post_processor", {{"type", "BertProcessing"}}),
              "post_processor.type must be one of");
  ExpectError(With("/decoder", {{"type", "WordPiece"}}),
              "decoder.type must be one of ByteFallback");
  const Json byte_level = SmallTokenizerJson()["pre_tokenizer"];
  ExpectError(
      With("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {byte_level, byte_level}}}),
      "pre_tokenizer.pretokenizers[1].type must not stand twice");
  ExpectError(With("/pre_tokenizer/use_regexp", true),
              "pre_tokenizer must have no unknown field; got \"use_regexp\"");
  const Json fuse = {{"type", "Fuse"}};
  ExpectError(
      With("/decoder", {{"type", "Sequence"}, {"decoders", {fuse, {{"type", "ByteFallback"}}}}}),
      "decoder.decoders[1].type must not stand behind ByteLevel or Fuse");
  ExpectError(With("/decoder", {{"type", "Strip"}, {"content", " "}, {"start", 0}, {"stop", 1}}),
              "decoder.stop must be 0");
  ExpectError(With("/decoder", {{"type", "Strip"}, {"content", "ab"}, {"start", 0}, {"stop", 0}}),
              "decoder.content must be one character");
}

TEST(HostileTokenizerTest, PatternsOfSplit) {
  const auto split = [](const Json& pattern, const char* behavior) {
    return With(
        "/pre_tokenizer",
        {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", false}});
  };
  ExpectError(split({{"Regex", "\\h"}}, "Isolated"),
              "pre_tokenizer.pattern.Regex must not use \\h");
  ExpectError(split({{"Regex", "a"}}, "Isolate"), "pre_tokenizer.behavior must be Removed");
  ExpectError(split({{"String", ""}}, "Isolated"),
              "pre_tokenizer.pattern.String must not be empty");
  ExpectError(split({{"Glob", "*"}}, "Isolated"), "pre_tokenizer.pattern.String must be given");
  ExpectError(split("a", "Isolated"), "pre_tokenizer.pattern must be an object");
}

TEST(HostileTokenizerTest, Templates) {
  const auto with_template = [](const Json& single, const Json& ids) {
    return With("/post_processor", {{"type", "TemplateProcessing"},
                                    {"single", single},
                                    {"special_tokens", {{"E", {{"id", "E"}, {"ids", ids}}}}}});
  };
  const Json text = {{"Sequence", {{"id", "A"}}}};
  const Json end = {{"SpecialToken", {{"id", "E"}}}};
  EXPECT_EQ(with_template({text, end}, {263}), "no error");
  ExpectError(with_template({text, end}, {264}),
              "special_tokens.E.ids must be ids with a token, unlike 264");
  ExpectError(with_template({text, end}, {-1}), "unlike -1");
  ExpectError(with_template({text, end}, {"x"}), "unlike \"x\"");
  ExpectError(with_template({text, text}, {263}),
              "post_processor.single[1].Sequence.id must be \"A\", and once");
  ExpectError(with_template(Json::array({end}), {263}),
              "post_processor.single must contain the text");
  ExpectError(with_template({text, {{"SpecialToken", {{"id", "F"}}}}}, {263}),
              "special_tokens.F must be given");
  ExpectError(with_template({text, end}, std::vector<int>(300, 263)), "at most 256 ids");
}

// Every truncation and many single-byte changes of a good file either load or throw kIo.
TEST(HostileTokenizerTest, DamagedFilesThrowOrLoad) {
  const std::string good = SmallTokenizerJson().dump();
  for (size_t length = 0; length < good.size(); length += 7) {
    EXPECT_NE(LoadError(good.substr(0, length)), "no error") << length;
  }
  for (size_t i = 0; i < good.size(); i += 3) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ static_cast<char>(1 << i % 8));
    const std::string error = LoadError(damaged);
    EXPECT_TRUE(error == "no error" || error.rfind("[t.json] ", 0) == 0) << error;
  }
}

}  // namespace
}  // namespace opst::text
