// Formats finished texts for people and for programs.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "result_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace opst::tool {
namespace {

using nlohmann::ordered_json;

// JSON text must be UTF-8 throughout; bytes of a token alone may not be.
std::string TokenText(const Engine& engine, int32_t token) {
  return engine.tokenizer().Decode(std::array{token}, {.skip_special_tokens = false});
}

ordered_json LogProbsJson(const Engine& engine, const GenerateResult& result) {
  ordered_json list = ordered_json::array();
  for (const TokenLogProb& entry : result.log_probs) {
    ordered_json likely = ordered_json::array();
    for (const auto& [token, log_prob] : entry.most_likely) {
      likely.push_back(
          {{"token", token}, {"text", TokenText(engine, token)}, {"log_prob", log_prob}});
    }
    list.push_back({{"token", entry.token},
                    {"text", TokenText(engine, entry.token)},
                    {"log_prob", entry.log_prob},
                    {"most_likely", likely}});
  }
  return list;
}

}  // namespace

std::string TokenLabel(const Engine& engine, int32_t token) {
  std::string text = TokenText(engine, token);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return "[" + text + "]";
}

void PrintSpeed(const GenerateResult& result) {
  const auto prompt = static_cast<double>(result.prompt_tokens.size());
  const auto computed = prompt - static_cast<double>(result.num_cached_tokens);
  const auto decoded = static_cast<double>(result.new_tokens.size()) - 1;
  std::fprintf(stderr, "%.0f prompt tokens", prompt);
  if (result.num_cached_tokens > 0) {
    std::fprintf(stderr, " (%lld kept)", static_cast<long long>(result.num_cached_tokens));
  }
  if (result.prefill_seconds > 0) {
    std::fprintf(stderr, " at %.1f/s", computed / result.prefill_seconds);
  }
  if (decoded > 0) {
    std::fprintf(stderr, ", %.0f new tokens at %.1f/s", decoded + 1,
                 decoded / result.decode_seconds);
  }
  std::fprintf(stderr, "; stopped: %s\n", std::string(StopReasonName(result.stop_reason)).c_str());
}

void PrintLogProbs(const Engine& engine, const GenerateResult& result) {
  std::printf("\n%-18s %9s  most likely\n", "token", "log-prob");
  for (const TokenLogProb& entry : result.log_probs) {
    std::printf("%-18s %9.4f ", TokenLabel(engine, entry.token).c_str(), entry.log_prob);
    for (const auto& [token, log_prob] : entry.most_likely) {
      std::printf(" %s %.4f", TokenLabel(engine, token).c_str(), log_prob);
    }
    std::printf("\n");
  }
}

std::string ResultsJson(const Engine& engine, const std::vector<GenerateResult>& results,
                        const std::vector<int64_t>& lines) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < results.size(); ++i) {
    const GenerateResult& result = results[i];
    ordered_json entry = {{"text", result.text},
                          {"stop_reason", StopReasonName(result.stop_reason)},
                          {"stop_string", result.stop_string},
                          {"prompt_tokens", result.prompt_tokens},
                          {"new_tokens", result.new_tokens},
                          {"prefill_seconds", result.prefill_seconds},
                          {"decode_seconds", result.decode_seconds}};
    if (!lines.empty()) entry["line"] = lines[i];
    if (!result.log_probs.empty()) entry["log_probs"] = LogProbsJson(engine, result);
    list.push_back(std::move(entry));
  }
  return list.dump(1) + "\n";
}

}  // namespace opst::tool
