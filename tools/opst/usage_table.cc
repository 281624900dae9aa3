// Formats expert usage for people.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "usage_table.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/check.h"
#include "result_report.h"

namespace opst::tool {
namespace {

constexpr int64_t kMaxTokens = 24;  // lines of the table
constexpr size_t kMaxLayers = 8;    // columns of the table

std::string Join(const std::vector<int32_t>& experts) {
  std::string text;
  for (const int32_t expert : experts) {
    if (expert >= 0) text += Concat(text.empty() ? "" : "+", expert);
  }
  return text;
}

void PrintTokens(const Engine& engine, const std::vector<int32_t>& tokens,
                 const ExpertUsage& usage) {
  const size_t num_layers = std::min(usage.layers().size(), kMaxLayers);
  std::printf("\nexperts per token, strongest first\n%-18s", "token");
  for (size_t i = 0; i < num_layers; ++i) {
    std::printf(" %9s", Concat("layer ", usage.layers()[i]).c_str());
  }
  std::printf("\n");
  const int64_t count =
      std::min({kMaxTokens, usage.num_tokens(0), static_cast<int64_t>(tokens.size())});
  for (int64_t token = 0; token < count; ++token) {
    std::printf("%-18s", TokenLabel(engine, tokens[static_cast<size_t>(token)]).c_str());
    for (size_t i = 0; i < num_layers; ++i) {
      std::printf(" %9s", Join(usage.ExpertsOf(i, token)).c_str());
    }
    std::printf("\n");
  }
  if (count < static_cast<int64_t>(tokens.size())) {
    std::printf("(%lld of %zu tokens; the last one is chosen, but not read)\n",
                static_cast<long long>(count), tokens.size());
  }
}

void PrintShares(const ExpertUsage& usage) {
  std::printf("\nshare of all rows per expert, in percent\n%-9s", "expert");
  for (size_t expert = 0; expert < usage.Counts(0).size(); ++expert) std::printf(" %4zu", expert);
  std::printf("\n");
  for (size_t i = 0; i < usage.layers().size(); ++i) {
    const std::vector<int64_t> counts = usage.Counts(i);
    int64_t sum = 0;
    for (const int64_t n : counts) sum += n;
    std::printf("layer %-3lld", static_cast<long long>(usage.layers()[i]));
    for (const int64_t n : counts) {
      std::printf(" %4.0f",
                  100.0 * static_cast<double>(n) / static_cast<double>(std::max<int64_t>(sum, 1)));
    }
    std::printf("\n");
  }
}

}  // namespace

void PrintUsage(const Engine& engine, const std::vector<GenerateResult>& results,
                const ExpertUsage& usage) {
  if (usage.layers().empty()) {
    std::printf("\nthe model has no layer with experts\n");
    return;
  }
  if (results.size() == 1) {  // the passes of a batch mix the tokens of its texts
    std::vector<int32_t> tokens = results[0].prompt_tokens;
    tokens.insert(tokens.end(), results[0].new_tokens.begin(), results[0].new_tokens.end());
    PrintTokens(engine, tokens, usage);
  }
  PrintShares(usage);
}

}  // namespace opst::tool
