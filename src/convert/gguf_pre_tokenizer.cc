// The table of pre-tokenizers that a GGUF file can name, and what each is in a tokenizer.json.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/gguf_pre_tokenizer.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/quote.h"
#include "text/utf8.h"

namespace opst {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200kWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseek3Words =
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

// The letters that DeepSeek's first tokenizers cut words at: most letters that have a case.
constexpr std::pair<char32_t, char32_t> kCasedLetters[] = {
    {'A', 'Z'},         {'a', 'z'},         {0xB5, 0xB5},       {0xC0, 0xD6},
    {0xD8, 0xF6},       {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},
    {0x295, 0x2AF},     {0x370, 0x373},     {0x376, 0x377},     {0x37B, 0x37D},
    {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},     {0x38C, 0x38C},
    {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
    {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},
    {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},
    {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},
    {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},   {0x1F5B, 0x1F5B},
    {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},
    {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},
    {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210A, 0x2113},   {0x2115, 0x2115},
    {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},
    {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
    {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},
    {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},
    {0xA680, 0xA69B},   {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},
    {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},
    {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
    {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};

std::string CasedLetters() {
  std::string letters;
  for (const auto& [first, last] : kCasedLetters) {
    text::AppendCharacter(first, letters);
    if (first == last) continue;
    letters += '-';
    text::AppendCharacter(last, letters);
  }
  return letters;
}

Json Split(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json SingleDigits() { return {{"type", "Digits"}, {"individual_digits", true}}; }

// Splits, then the spelling.
Json Words(std::initializer_list<std::string_view> patterns) {
  Json steps = Json::array();
  for (const std::string_view pattern : patterns) steps.push_back(Split(pattern));
  steps.push_back(GgufByteLevel(false));
  return steps;
}

// Line ends, letters and marks each with the white space before it, Chinese and Korean, digits.
Json DeepseekWords(std::initializer_list<std::string_view> words) {
  Json steps = Json::array({Split("[\r\n]")});
  for (const std::string_view pattern : words) steps.push_back(Split(pattern));
  steps.push_back(Split("[一-龥ࠀ-一가-\uD7FF]+"));
  steps.push_back(SingleDigits());
  steps.push_back(GgufByteLevel(false));
  return steps;
}

struct Row {
  std::string_view name;
  GgufPreTokenizer pre;
};

std::vector<Row> MakeTable() {
  const Json gpt2 = Json::array({GgufByteLevel(true)});
  const Json starcoder = Json::array({SingleDigits(), GgufByteLevel(true)});
  const GgufPreTokenizer llama3 = {
      .steps = Words({kLlama3Words}), .ignores_merges = true, .adds_bos = true};
  return {
      {"gpt-2", {.steps = gpt2}},
      {"olmo", {.steps = gpt2, .is_nfc = true}},
      {"smollm", {.steps = starcoder}},
      {"starcoder", {.steps = starcoder}},
      {"refact", {.steps = starcoder}},
      {"llama-bpe", llama3},
      {"llama3", llama3},
      {"llama-v3", llama3},
      {"dbrx", {.steps = Words({kLlama3Words})}},
      {"glm4", {.steps = Words({kLlama3Words})}},
      {"chatglm-bpe", {.steps = Words({kLlama3Words})}},
      {"qwen2", {.steps = Words({kQwen2Words}), .is_nfc = true}},
      {"gpt-4o", {.steps = Words({kO200kWords})}},
      {"tekken", {.steps = Words({kTekkenWords}), .ignores_merges = true, .adds_bos = true}},
      {"deepseek-llm",
       {.steps = DeepseekWords({Concat("\\s?[", CasedLetters(), "]+"),
                                "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", "\\s+$"})}},
      {"deepseek-coder", {.steps = DeepseekWords({"\\s?\\p{L}+", "\\s?\\p{P}+"})}},
      {"deepseek-v3", {.steps = Words({"\\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", kDeepseek3Words})}},
  };
}

}  // namespace

Json GgufByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

GgufPreTokenizer ReadGgufPreTokenizer(const GgufMetadata& metadata) {
  static const std::vector<Row> kTable = MakeTable();
  const std::string_view name = metadata.String("tokenizer.ggml.pre");
  std::string known;
  for (const Row& row : kTable) {
    if (row.name == name) return row.pre;
    known += Concat(known.empty() ? "" : ", ", row.name);
  }
  ThrowIo(metadata.where(), Concat("tokenizer.ggml.pre must be one of ", known), Quote(name));
}

}  // namespace opst
