// Builds tokenizer.json and its companions from GGUF metadata.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/gguf_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "convert/gguf_pre_tokenizer.h"
#include "io/quote.h"

namespace opst {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTokens = 4'194'304;
constexpr size_t kMaxPieceBytes = 1024;  // of pieces whose merges are derived
constexpr std::string_view kSpace = "▁";

// Token types of the format.
constexpr int64_t kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6;

// What the file says about its tokens, sizes checked.
struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<int64_t> types;

  bool Is(size_t id, int64_t type) const { return !types.empty() && types[id] == type; }
};

Vocabulary ReadVocabulary(const GgufMetadata& metadata) {
  Vocabulary vocabulary;
  vocabulary.tokens = metadata.Strings("tokenizer.ggml.tokens");
  OPST_CHECK_IO(vocabulary.tokens.size() <= kMaxTokens, metadata.where(),
                Concat("tokenizer.ggml.tokens must have at most ", kMaxTokens, " entries"),
                vocabulary.tokens.size());
  if (metadata.Has("tokenizer.ggml.token_type")) {
    vocabulary.types = metadata.Integers("tokenizer.ggml.token_type");
    OPST_CHECK_IO(vocabulary.types.size() == vocabulary.tokens.size(), metadata.where(),
                  "tokenizer.ggml.token_type must have one entry per token",
                  vocabulary.types.size(), " for ", vocabulary.tokens.size());
  }
  return vocabulary;
}

// The token of tokenizer.ggml.<name>_token_id; none when the file has no such key.
std::optional<size_t> SpecialId(const GgufMetadata& metadata, const Vocabulary& vocabulary,
                                std::string_view name) {
  const std::string key = Concat("tokenizer.ggml.", name, "_token_id");
  if (!metadata.Has(key)) return std::nullopt;
  const auto last = static_cast<int64_t>(vocabulary.tokens.size()) - 1;
  return static_cast<size_t>(metadata.Integer(key, 0, last));
}

Json VocabularyJson(const Vocabulary& vocabulary) {
  Json::object_t object;
  // In place: the object of an ordered_json looks for duplicates with every operator[].
  auto& entries = static_cast<std::vector<std::pair<const std::string, Json>>&>(object);
  entries.reserve(vocabulary.tokens.size());
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    entries.emplace_back(std::string(vocabulary.tokens[id]), id);
  }
  return object;
}

Json AddedTokens(const Vocabulary& vocabulary) {
  Json added = Json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const bool is_special = vocabulary.Is(id, kControl) || vocabulary.Is(id, kUnknown);
    if (!is_special && !vocabulary.Is(id, kUserDefined)) continue;
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", is_special}});
  }
  return added;
}

// Puts the begin and end tokens around a text, as the file asks.
Json PostProcessor(const GgufMetadata& metadata, const Vocabulary& vocabulary, bool adds_bos) {
  Json single = Json::array();
  Json specials = Json::object();
  const auto add = [&](std::string_view name) {
    const std::optional<size_t> id = SpecialId(metadata, vocabulary, name);
    OPST_CHECK_IO(id.has_value(), metadata.where(),
                  Concat("a tokenizer that adds its ", name, " token must name it"),
                  "no tokenizer.ggml.", name, "_token_id");
    const std::string_view token = vocabulary.tokens[*id];
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    specials[std::string(token)] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
  };
  if (metadata.Bool("tokenizer.ggml.add_bos_token", adds_bos)) add("bos");
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (metadata.Bool("tokenizer.ggml.add_eos_token", false)) add("eos");
  if (single.size() == 1) return nullptr;
  Json pair = single;  // for two texts; required by the form, used by nobody here
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", specials}};
}

Json ByteLevelBpe(const GgufMetadata& metadata, const Vocabulary& vocabulary) {
  const GgufPreTokenizer pre = ReadGgufPreTokenizer(metadata);
  Json merges = Json::array();
  for (const std::string_view merge : metadata.Strings("tokenizer.ggml.merges")) {
    merges.push_back(merge);
  }
  Json file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  file["added_tokens"] = AddedTokens(vocabulary);
  file["normalizer"] = pre.is_nfc ? Json{{"type", "NFC"}} : Json(nullptr);
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", pre.steps}};
  file["post_processor"] = PostProcessor(metadata, vocabulary, pre.adds_bos);
  file["decoder"] = GgufByteLevel(true);
  file["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", pre.ignores_merges},
                   {"vocab", VocabularyJson(vocabulary)},
                   {"merges", std::move(merges)}};
  return file;
}

struct Merge {
  float score;
  std::string_view left;
  std::string_view right;
  size_t left_id;
  size_t right_id;
};

size_t NumCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Every cut of a piece into two pieces is a merge; merges of the piece with the highest score come
// first, and of one piece's those with the shorter left part.
Json DerivedMerges(const GgufMetadata& metadata, const Vocabulary& vocabulary) {
  const std::vector<float> scores = metadata.Floats("tokenizer.ggml.scores");
  OPST_CHECK_IO(scores.size() == vocabulary.tokens.size(), metadata.where(),
                "tokenizer.ggml.scores must have one entry per token", scores.size(), " for ",
                vocabulary.tokens.size());
  std::unordered_map<std::string_view, size_t> ids;
  const auto is_piece = [&](size_t id) {
    return !vocabulary.Is(id, kUnknown) && !vocabulary.Is(id, kControl) &&
           !vocabulary.Is(id, kByte);
  };
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (is_piece(id)) ids.emplace(vocabulary.tokens[id], id);
  }
  std::vector<Merge> merges;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view piece = vocabulary.tokens[id];
    if (!is_piece(id)) continue;
    OPST_CHECK_IO(piece.size() <= kMaxPieceBytes && scores[id] == scores[id], metadata.where(),
                  "pieces must have at most 1024 bytes and a score that is a number", Quote(piece));
    const size_t first = merges.size();
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if ((piece[cut] & 0xC0) == 0x80) continue;  // inside a character
      const auto left = ids.find(piece.substr(0, cut));
      const auto right = ids.find(piece.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({scores[id], left->first, right->first, left->second, right->second});
    }
    std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
              [](const Merge& a, const Merge& b) {
                return std::pair(a.left_id, a.right_id) < std::pair(b.left_id, b.right_id);
              });
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    if (a.score != b.score) return a.score > b.score;
    return std::pair(NumCharacters(a.left), NumCharacters(a.right)) >
           std::pair(NumCharacters(b.left), NumCharacters(b.right));
  });
  Json list = Json::array();
  for (const Merge& merge : merges) list.push_back({merge.left, merge.right});
  return list;
}

Json SentencePieceBpe(const GgufMetadata& metadata, const Vocabulary& vocabulary) {
  Json steps = Json::array();
  Json decoder =
      Json::array({{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}});
  if (metadata.Bool("tokenizer.ggml.add_space_prefix", true)) {
    steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
    decoder.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
  const std::optional<size_t> unknown = SpecialId(metadata, vocabulary, "unknown");
  Json file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  file["added_tokens"] = AddedTokens(vocabulary);
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  file["pre_tokenizer"] = nullptr;
  file["post_processor"] = PostProcessor(metadata, vocabulary, true);
  file["decoder"] = {{"type", "Sequence"}, {"decoders", decoder}};
  file["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", unknown ? Json(vocabulary.tokens[*unknown]) : Json(nullptr)},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", true},
                   {"byte_fallback", true},
                   {"ignore_merges", false},
                   {"vocab", VocabularyJson(vocabulary)},
                   {"merges", DerivedMerges(metadata, vocabulary)}};
  return file;
}

// Special tokens by name, and the template.
Json TokenizerConfig(const GgufMetadata& metadata, const Vocabulary& vocabulary) {
  Json config = Json::object();
  for (const auto& [key, name] :
       {std::pair("bos", "bos_token"), std::pair("eos", "eos_token"),
        std::pair("unknown", "unk_token"), std::pair("padding", "pad_token")}) {
    const std::optional<size_t> id = SpecialId(metadata, vocabulary, key);
    if (id) config[name] = vocabulary.tokens[*id];
  }
  if (metadata.Has("tokenizer.chat_template")) {
    config["chat_template"] = metadata.String("tokenizer.chat_template");
  }
  return config;
}

Json GenerationConfig(const GgufMetadata& metadata, const Vocabulary& vocabulary) {
  Json ends = Json::array();
  for (const std::string_view name : {"eos", "eot", "eom"}) {
    const std::optional<size_t> id = SpecialId(metadata, vocabulary, name);
    if (id && std::find(ends.begin(), ends.end(), Json(*id)) == ends.end()) ends.push_back(*id);
  }
  return ends.empty() ? Json::object() : Json{{"eos_token_id", ends}};
}

}  // namespace

std::vector<TextFile> GgufTextFiles(const GgufMetadata& metadata) {
  const std::string_view model = metadata.String("tokenizer.ggml.model", "no_vocab");
  if (model == "no_vocab" || model == "none") return {};
  OPST_CHECK_IO(model == "gpt2" || model == "llama", metadata.where(),
                "tokenizer.ggml.model must be gpt2 or llama", Quote(model));
  const Vocabulary vocabulary = ReadVocabulary(metadata);
  const Json tokenizer =
      model == "gpt2" ? ByteLevelBpe(metadata, vocabulary) : SentencePieceBpe(metadata, vocabulary);
  try {
    return {{"tokenizer.json", tokenizer.dump()},
            {"tokenizer_config.json", TokenizerConfig(metadata, vocabulary).dump()},
            {"generation_config.json", GenerationConfig(metadata, vocabulary).dump()}};
  } catch (const Json::type_error& error) {
    ThrowIo(metadata.where(), "tokens and templates must be UTF-8", error.what());
  }
}

}  // namespace opst
