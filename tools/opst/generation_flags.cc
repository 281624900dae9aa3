// Declares the flags of generation and turns their texts into options.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "generation_flags.h"

#include <limits>

#include "base/check.h"
#include "base/strings.h"
#include "command_line.h"

namespace opst::tool {
namespace {

constexpr const char* kExpertsHint = "[LAYER:]EXPERT,...";

std::vector<ExpertName> ParseExperts(const std::string& flag,
                                     const std::vector<std::string>& texts) {
  std::vector<ExpertName> names;
  for (const std::string& text : texts) {
    const std::vector<std::string_view> parts = Split(text, ':');
    const auto expert = ParseInt(parts.empty() ? "" : parts.back());
    const auto layer = parts.size() == 2 ? ParseInt(parts[0]) : -1;
    const bool is_valid = (parts.size() == 1 || (parts.size() == 2 && layer && *layer >= 0)) &&
                          expert && *expert >= 0 && *expert <= std::numeric_limits<int32_t>::max();
    OPST_CHECK_ARG(is_valid, flag, "an expert must be a number, or layer:expert", "\"", text, "\"");
    names.push_back({*layer, static_cast<int32_t>(*expert)});
  }
  return names;
}

std::vector<LogitBias> ParseBias(const std::vector<std::string>& texts) {
  std::vector<LogitBias> biases;
  for (const std::string& text : texts) {
    const std::vector<std::string_view> parts = Split(text, '=');
    const auto token = ParseInt(parts.empty() ? "" : parts[0]);
    const bool bans = parts.size() == 2 && ToLower(parts[1]) == "-inf";
    const auto bias = parts.size() == 2 ? ParseFloat(parts[1]) : std::nullopt;
    OPST_CHECK_ARG(parts.size() == 2 && token && *token >= 0 &&
                       *token <= std::numeric_limits<int32_t>::max() && (bans || bias),
                   "--logit-bias", "a bias must be token=number or token=-inf", "\"", text, "\"");
    biases.push_back({static_cast<int32_t>(*token),
                      bans ? -std::numeric_limits<float>::infinity() : static_cast<float>(*bias)});
  }
  return biases;
}

SelectionRule ParseRule(const std::string& text) {
  if (text == "threshold") return SelectionRule::kThreshold;
  if (text == "top-p") return SelectionRule::kTopP;
  if (text == "entropy") return SelectionRule::kEntropy;
  return SelectionRule::kTopK;  // the only other value that the flag accepts
}

std::vector<EntropyThreshold> ParseEntropySteps(const std::vector<std::string>& texts) {
  std::vector<EntropyThreshold> steps;
  for (const std::string& text : texts) {
    const std::vector<std::string_view> parts = Split(text, ':');
    const auto entropy = parts.size() == 2 ? ParseFloat(parts[0]) : std::nullopt;
    const auto num_experts = parts.size() == 2 ? ParseInt(parts[1]) : std::nullopt;
    OPST_CHECK_ARG(entropy && num_experts, "--routing-entropy",
                   "a step must be entropy:experts, such as 0.5:1", "\"", text, "\"");
    steps.push_back({static_cast<float>(*entropy), *num_experts});
  }
  return steps;
}

void AddSampling(CLI::App& command, SamplingOptions& sampling) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(BothSpellings(name), value, help)->capture_default_str();
  };
  add("--temperature", sampling.temperature, "Randomness; 0 takes the most likely token each time");
  add("--top-k", sampling.top_k, "Draw among the k most likely; 0 = all")
      ->transform(IntegerFrom(0));
  add("--top-p", sampling.top_p, "Draw among the fewest tokens that reach this probability");
  add("--min-p", sampling.min_p,
      "Draw among tokens at least this share as likely as the likeliest");
  add("--repetition-penalty", sampling.repetition_penalty,
      "Logits of tokens in prompt and text are divided by it; 1 = off");
  add("--presence-penalty", sampling.presence_penalty, "Taken off logits of tokens in the text");
  add("--frequency-penalty", sampling.frequency_penalty, "Taken off once per time in the text");
  add("--seed", sampling.seed, "The same seed gives the same text")
      ->transform(IntegerFrom(0, UINT64_MAX));
}

void AddRoutingFlags(CLI::App& command, ExpertFlags& flags) {
  auto* routing = command
                      .add_option("--routing", flags.routing,
                                  "How many of those experts a token takes; without it, as the "
                                  "model says")
                      ->check(CLI::IsMember({"top-k", "threshold", "top-p", "entropy"}))
                      ->group("Experts");
  command
      .add_option(BothSpellings("--routing-threshold"), flags.threshold,
                  "With threshold: experts above this share of the scores; 0 = 1/E")
      ->needs(routing)
      ->capture_default_str()
      ->group("Experts");
  command
      .add_option(BothSpellings("--routing-top-p"), flags.top_p,
                  "With top-p: the fewest experts that reach this share of the scores")
      ->needs(routing)
      ->capture_default_str()
      ->group("Experts");
  command
      .add_option(BothSpellings("--routing-entropy"), flags.entropy_steps,
                  "With entropy: tokens whose scores have less than this entropy (0 to 1) take so "
                  "many experts")
      ->needs(routing)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("ENTROPY:EXPERTS,...")
      ->group("Experts");
}

}  // namespace

ExpertChoice ExpertFlags::Choice() const {
  ExpertChoice choice{active_experts, ParseExperts("--mask-experts", masked),
                      ParseExperts("--force-experts", forced)};
  if (!routing.empty()) {
    choice.selection = SelectionOptions{.rule = ParseRule(routing),
                                        .threshold = threshold,
                                        .top_p = top_p,
                                        .entropy_thresholds = ParseEntropySteps(entropy_steps)};
  }
  return choice;
}

GenerateOptions GenerationFlags::Parsed() const {
  GenerateOptions parsed = options;
  parsed.experts = experts.Choice();
  parsed.sampling.logit_bias = ParseBias(logit_bias);
  return parsed;
}

void AddExpertFlags(CLI::App& command, ExpertFlags& flags) {
  command
      .add_option(BothSpellings("--active-experts"), flags.active_experts,
                  "Experts per token instead of the model's number; the strongest are kept")
      ->transform(IntegerFrom(1))
      ->group("Experts");
  command
      .add_option(BothSpellings("--mask-experts"), flags.masked,
                  "Experts that are never chosen, in all layers or in one")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name(kExpertsHint)
      ->group("Experts");
  command
      .add_option(BothSpellings("--force-experts"), flags.forced,
                  "The only experts that are chosen, in all layers or in one")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name(kExpertsHint)
      ->group("Experts");
  AddRoutingFlags(command, flags);
}

void AddGenerationFlags(CLI::App& command, GenerationFlags& flags) {
  GenerateOptions& options = flags.options;
  command
      .add_option("-n," + BothSpellings("--max-new-tokens"), options.max_new_tokens,
                  "Tokens to write at most")
      ->transform(IntegerFrom(1))
      ->capture_default_str();
  AddSampling(command, options.sampling);
  command
      .add_option(BothSpellings("--logit-bias"), flags.logit_bias,
                  "Added to a token's logit; -inf bans it; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TOKEN=BIAS");
  command.add_option("--stop", options.stop_strings, "Text that ends the answer; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command.add_flag(BothSpellings("--ignore-end-tokens"), options.ignores_end_tokens,
                   "Go on behind the token that ends a text");
  command
      .add_option(BothSpellings("--context-length"), options.context_length,
                  "Tokens of prompt and answer at most; 0 = no limit, with a warning beyond the "
                  "trained length")
      ->transform(IntegerFrom(0));
  command
      .add_option(BothSpellings("--prefill-chunk"), options.prefill_chunk, "Prompt tokens per pass")
      ->transform(IntegerFrom(1))
      ->capture_default_str();
  AddExpertFlags(command, flags.experts);
}

}  // namespace opst::tool
