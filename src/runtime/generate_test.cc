// What ends a text, batches, caches, probabilities and chosen experts, on the bundled model.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "opst/engine.h"
#include "runtime/expert_usage.h"
#include "runtime/testing/bundled_model.h"

namespace opst {
namespace {

namespace fs = std::filesystem;

const std::string kPrompt = "It is a truth universally acknowledged, that a single man in";

class GenerateTest : public ::testing::Test {
 protected:
  GenerateResult Generate(const GenerateOptions& options, std::string_view prompt = kPrompt) const {
    return engine_.Generate(context_, prompt, options);
  }
  // The error text of a call that must fail as the caller's fault.
  std::string ErrorOf(const GenerateOptions& options) const {
    return Rejection([&] { Generate(options); });
  }

  const Context& context_ = testing::BundledModel::Get().context;
  const Engine& engine_ = testing::BundledModel::Get().engine;
};

TEST_F(GenerateTest, EveryPromptOfABatchGetsTheAnswerItGetsAlone) {
  const std::vector<std::string> prompts{kPrompt, "She", "And God said unto him, I am",
                                         "\xE2\x80\x9C"};
  for (const float temperature : {0.0f, 1.2f}) {
    GenerateOptions options{.max_new_tokens = 25,
                            .sampling = {.temperature = temperature, .seed = 9},
                            .num_log_probs = 2};
    std::vector<std::string> streamed(prompts.size());
    const auto results = engine_.GenerateBatch(context_, prompts, options,
                                               [&](size_t prompt, std::string_view text) {
                                                 streamed[prompt] += text;
                                                 return true;
                                               });
    ASSERT_EQ(results.size(), prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      const GenerateResult alone = Generate(options, prompts[i]);
      EXPECT_EQ(results[i].new_tokens, alone.new_tokens) << prompts[i];
      EXPECT_EQ(results[i].text, alone.text);
      EXPECT_EQ(streamed[i], alone.text);
      for (size_t token = 0; token < alone.log_probs.size(); ++token) {
        EXPECT_EQ(results[i].log_probs[token].log_prob, alone.log_probs[token].log_prob);
        EXPECT_EQ(results[i].log_probs[token].most_likely, alone.log_probs[token].most_likely);
      }
    }
  }
}

TEST_F(GenerateTest, OneTextOfABatchMayStopWhileOthersGoOn) {
  const std::vector<std::string> prompts{kPrompt, "She was"};
  const auto results =
      engine_.GenerateBatch(context_, prompts, {.max_new_tokens = 12},
                            [](size_t prompt, std::string_view) { return prompt != 0; });
  EXPECT_EQ(results[0].stop_reason, StopReason::kCancelled);
  EXPECT_EQ(results[1].text, Generate({.max_new_tokens = 12}, "She was").text);
}

TEST_F(GenerateTest, StopStringsCutTheTextWhereTheyBegin) {
  const std::string whole = Generate({.max_new_tokens = 30}).text;
  // Every substring of 7 bytes that is whole UTF-8 crosses token borders here and there.
  for (size_t at = 1; at + 7 < whole.size(); at += 11) {
    const std::string stop = whole.substr(at, 7);
    std::string streamed;
    const GenerateResult result = Generate({.max_new_tokens = 30,
                                            .stop_strings = {"never in the text", stop},
                                            .on_text = [&](std::string_view text) {
                                              streamed += text;
                                              return true;
                                            }});
    EXPECT_EQ(result.text, whole.substr(0, whole.find(stop)));
    EXPECT_EQ(streamed, result.text);
    EXPECT_EQ(result.stop_reason, StopReason::kStopString);
    EXPECT_EQ(result.stop_string, stop);
  }
  EXPECT_NE(ErrorOf({.stop_strings = {""}}).find("a stop string must not be empty"),
            std::string::npos);
}

TEST_F(GenerateTest, LogProbsAreTheSoftmaxOfTheModelsOwnLogits) {
  const GenerateResult result =
      Generate({.max_new_tokens = 8, .sampling = {.repetition_penalty = 1.3f}, .num_log_probs = 3});
  ASSERT_EQ(result.log_probs.size(), result.new_tokens.size());
  const Model& model = engine_.model();
  std::vector<int32_t> tokens = result.prompt_tokens;
  for (size_t step = 0; step < result.new_tokens.size(); ++step) {
    Sequence sequence = model.NewSequence(static_cast<int64_t>(tokens.size()));
    std::vector<float> logits(static_cast<size_t>(model.config().vocab_size));
    model.Forward(context_, tokens, sequence,
                  TensorView(logits.data(), Shape{1, model.config().vocab_size}));
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const TokenLogProb& found = result.log_probs[step];
    EXPECT_EQ(found.token, result.new_tokens[step]);
    EXPECT_NEAR(found.log_prob,
                static_cast<double>(logits[static_cast<size_t>(found.token)]) - std::log(sum),
                1e-9);
    ASSERT_EQ(found.most_likely.size(), 3u);
    EXPECT_GE(found.most_likely[0].second, found.most_likely[1].second);
    EXPECT_GE(found.most_likely[1].second, found.most_likely[2].second);
    tokens.push_back(found.token);
  }
}

TEST_F(GenerateTest, TheContextLengthEndsTheTextAndRefusesLongPrompts) {
  const auto prompt = static_cast<int64_t>(engine_.tokenizer().Encode(kPrompt).size());
  const GenerateResult result = Generate({.max_new_tokens = 50, .context_length = prompt + 3});
  EXPECT_EQ(result.new_tokens.size(), 3u);
  EXPECT_EQ(result.stop_reason, StopReason::kContextLength);
  EXPECT_EQ(Generate({.max_new_tokens = 3, .context_length = prompt + 3}).stop_reason,
            StopReason::kMaxNewTokens);
  EXPECT_NE(ErrorOf({.context_length = prompt}).find("leave room for a token"), std::string::npos);
  EXPECT_NE(ErrorOf({.context_length = -1}).find("context_length"), std::string::npos);
}

TEST_F(GenerateTest, CancellingStopsBeforeTheNextPass) {
  int calls = 0;
  const GenerateResult result =
      Generate({.max_new_tokens = 50, .is_cancelled = [&] { return ++calls == 5; }});
  EXPECT_EQ(result.stop_reason, StopReason::kCancelled);
  EXPECT_EQ(result.new_tokens.size(), 4u);  // one pass for the prompt, three for tokens
  const GenerateResult nothing = Generate({.is_cancelled = [] { return true; }});
  EXPECT_EQ(nothing.stop_reason, StopReason::kCancelled);
  EXPECT_TRUE(nothing.new_tokens.empty());
}

TEST_F(GenerateTest, APromptCacheComputesOnlyWhatIsNewAndChangesNothing) {
  PromptCache cache(engine_.model(), 200);
  GenerateOptions options{.max_new_tokens = 10, .cache = &cache};
  const GenerateResult first = Generate(options);
  EXPECT_EQ(first.num_cached_tokens, 0);
  const std::string longer = kPrompt + first.text + " and then";
  const GenerateResult second = Generate(options, longer);
  EXPECT_GT(second.num_cached_tokens, static_cast<int64_t>(first.prompt_tokens.size()) - 1);
  EXPECT_EQ(second.text, Generate({.max_new_tokens = 10}, longer).text);
  // Another beginning, and the same prompt again.
  EXPECT_EQ(Generate(options, "She was").text, Generate({.max_new_tokens = 10}, "She was").text);
  const GenerateResult again = Generate(options, "She was");
  EXPECT_EQ(again.text, Generate({.max_new_tokens = 10}, "She was").text);
  EXPECT_EQ(again.num_cached_tokens, static_cast<int64_t>(again.prompt_tokens.size()) - 1);
  PromptCache small(engine_.model(), 4);
  options.cache = &small;
  EXPECT_NE(ErrorOf(options).find("leave room for a token"), std::string::npos);
}

TEST_F(GenerateTest, IgnoredEndTokensAreOrdinaryOnes) {
  ASSERT_FALSE(engine_.end_tokens().empty());
  const int32_t end = engine_.end_tokens()[0];
  GenerateOptions options{.max_new_tokens = 4, .sampling = {.logit_bias = {{end, 1000}}}};
  const GenerateResult stopped = Generate(options);
  EXPECT_EQ(stopped.stop_reason, StopReason::kEndToken);
  EXPECT_EQ(stopped.new_tokens, std::vector<int32_t>{end});
  EXPECT_EQ(stopped.text, "");
  options.ignores_end_tokens = true;
  EXPECT_EQ(Generate(options).new_tokens, std::vector<int32_t>(4, end));
}

TEST_F(GenerateTest, PerplexityIsTheSameWhenDecodingAndForAnyBatch) {
  std::string text;
  for (int i = 0; i < 4; ++i) text += kPrompt + " possession of a good fortune. ";
  const std::vector<int32_t> tokens =
      engine_.tokenizer().Encode(text, {.add_special_tokens = false});
  const double prefill = engine_.Perplexity(context_, tokens, {.window = 12}).nll;
  for (const int64_t batch : {1, 3, 64}) {
    const PerplexityOptions options{.window = 12, .decodes = true, .batch_size = batch};
    EXPECT_EQ(engine_.Perplexity(context_, tokens, options).nll, prefill) << "batch " << batch;
  }
  const PerplexityOptions fewer{.window = 12, .experts = {.active_experts = 1}};
  EXPECT_NE(engine_.Perplexity(context_, tokens, fewer).nll, prefill);
}

// By hand: each window alone, from the model's own logits.
TEST_F(GenerateTest, PerplexityPutsTheBeginTokensInFrontOfEveryWindow) {
  const std::vector<int32_t> tokens =
      engine_.tokenizer().Encode(kPrompt + " possession.", {.add_special_tokens = false});
  const Model& model = engine_.model();
  const int64_t vocabulary = model.config().vocab_size;
  for (const std::vector<int32_t>& begin : {std::vector<int32_t>{7}, std::vector<int32_t>{7, 9}}) {
    const size_t length = 6 - begin.size();
    double sum = 0;
    int64_t count = 0;
    for (size_t at = 0; at + length <= tokens.size(); at += length) {
      std::vector<int32_t> window = begin;
      window.insert(window.end(), &tokens[at], &tokens[at] + length);
      Sequence sequence = model.NewSequence(6);
      std::vector<float> logits(static_cast<size_t>(6 * vocabulary));
      model.Forward(context_, window, sequence, TensorView(logits.data(), Shape{6, vocabulary}));
      for (size_t i = begin.size(); i < 6; ++i, ++count) {
        const float* row = &logits[(i - 1) * static_cast<size_t>(vocabulary)];
        double total = 0;
        for (int64_t v = 0; v < vocabulary; ++v) total += std::exp(static_cast<double>(row[v]));
        sum += std::log(total) - static_cast<double>(row[window[i]]);
      }
    }
    for (const bool decodes : {false, true}) {
      const PerplexityResult result = engine_.Perplexity(
          context_, tokens, {.window = 6, .begin_tokens = begin, .decodes = decodes});
      EXPECT_EQ(result.num_predicted, count);
      EXPECT_NEAR(result.nll, sum / static_cast<double>(count), 1e-9);
    }
  }
  const PerplexityOptions full{.window = 2, .begin_tokens = {7, 9}};
  EXPECT_NE(Rejection([&] {
              engine_.Perplexity(context_, tokens, full);
            }).find("room for the tokens in front of a text"),
            std::string::npos);
}

TEST_F(GenerateTest, ChosenExpertsAreTheOnesThatServe) {
  ExpertUsage usage;
  const auto add = [&](int64_t layer, const RoutingPlan& plan) { usage.Add(layer, plan); };
  Generate({.max_new_tokens = 4,
            .experts = {.active_experts = 3, .masked = {{.expert = 2}}},
            .on_routing = add});
  for (size_t layer = 0; layer < usage.layers().size(); ++layer) {
    EXPECT_EQ(usage.top_k(layer), 3);
    EXPECT_EQ(usage.Counts(layer)[2], 0);
  }
  const auto json = nlohmann::json::parse(usage.ToJson());
  EXPECT_EQ(json["num_experts"], 8);
  ASSERT_EQ(json["layers"].size(), usage.layers().size());
  double weights = 0;
  for (const double sum : json["layers"][0]["weight_sums"]) weights += sum;
  // Mixing weights of a token add up to 1: this model renormalises.
  EXPECT_NEAR(weights, json["layers"][0]["num_tokens"].get<double>(), 1e-4);
  EXPECT_NE(ErrorOf({.experts = {.active_experts = 9}}).find("active experts must be 1..8; got 9"),
            std::string::npos);
}

// The bundled checkpoint with other text files.
class EndTokensTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(testing::kBundledSource, source(), fs::copy_options::recursive);
  }
  fs::path source() const { return folder_.File("source"); }
  void Write(const std::string& name, const nlohmann::json& value) const {
    std::ofstream(source() / name) << value.dump();
  }

  TempFolder folder_;
  Context context_;
};

TEST_F(EndTokensTest, AreTheUnionOfAllPlaces) {
  const auto config = nlohmann::json::parse(std::ifstream(source() / "config.json"));
  const auto own = config["eos_token_id"].get<int32_t>();
  const Engine& plain = testing::BundledModel::Get().engine;
  const auto name_of = [&](int32_t id) { return std::string(*plain.tokenizer().TokenText(id)); };
  Write("generation_config.json", {{"eos_token_id", {301, 106}}});
  Write("tokenizer_config.json", {{"eos_token", name_of(302)}, {"add_bos_token", false}});
  Write("special_tokens_map.json", {{"eos_token", {{"content", name_of(303)}, {"lstrip", false}}}});
  const Engine engine = testing::ConvertAndLoad(context_, source(), folder_);
  std::vector<int32_t> expected{own, 106, 301, 302, 303};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(engine.end_tokens(), expected);
  // It stops at any of them, and none is printed.
  const GenerateResult result =
      engine.Generate(context_, "She was", {.sampling = {.logit_bias = {{303, 1000}}}});
  EXPECT_EQ(result.stop_reason, StopReason::kEndToken);
  EXPECT_EQ(result.text, "");
}

TEST_F(EndTokensTest, BrokenFilesAreNamed) {
  Write("tokenizer_config.json", {{"eos_token", 5}});
  const std::string error = IoError([&] { testing::ConvertAndLoad(context_, source(), folder_); });
  EXPECT_NE(error.find("tokenizer_config.json] eos_token must be a text"), std::string::npos)
      << error;
}

// The words of a SentencePiece-like tokenizer whose decoder drops the space in front of a text.
nlohmann::json MetaspaceTokenizer() {
  const nlohmann::json metaspace = {{"type", "Metaspace"}, {"replacement", "▁"}};
  return {{"version", "1.0"},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"▁", 0}, {"h", 1}, {"▁h", 2}, {"i", 3}, {"▁hi", 4}, {"▁you", 5}}},
            {"merges", {"▁ h", "▁h i"}}}},
          {"pre_tokenizer", metaspace},
          {"decoder", metaspace}};
}

TEST_F(EndTokensTest, TheSpaceBetweenPromptAndTextIsKeptAndThatOfAnAnswerIsNot) {
  Write("tokenizer.json", MetaspaceTokenizer());
  std::filesystem::remove(source() / "tokenizer_config.json");
  std::filesystem::remove(source() / "special_tokens_map.json");
  const Engine engine = testing::ConvertAndLoad(context_, source(), folder_);
  GenerateOptions options{
      .max_new_tokens = 2, .sampling = {.logit_bias = {{5, 1000}}}, .ignores_end_tokens = true};
  EXPECT_EQ(engine.Generate(context_, "hi", options).text, " you you");
  const std::vector<std::string> prompts{"hi", "hi hi"};
  for (const GenerateResult& result : engine.GenerateBatch(context_, prompts, options)) {
    EXPECT_EQ(result.text, " you you");
  }
  options.begins_text = true;
  EXPECT_EQ(engine.Generate(context_, "hi", options).text, "you you");
  options.begins_text = false;
  options.stop_strings = {" you"};
  const GenerateResult stopped = engine.Generate(context_, "hi", options);
  EXPECT_EQ(stopped.text, "");
  EXPECT_EQ(stopped.stop_string, " you");
  EXPECT_EQ(stopped.new_tokens.size(), 1u);
}

TEST_F(EndTokensTest, AModelWithoutATemplateSaysWhereItLooked) {
  const Engine engine = testing::ConvertAndLoad(context_, source(), folder_);
  EXPECT_EQ(IoError([&] { engine.LoadChatTemplate(); }),
            "[chat] the model must carry a chat template in chat_template.jinja, "
            "tokenizer_config.json or chat_template.json; got none; `opst generate` continues "
            "plain text without one");
  EXPECT_FALSE(engine.Generate(context_, "She was", {.max_new_tokens = 3}).text.empty());
}

TEST_F(EndTokensTest, ATemplateTravelsInThePackedFile) {
  std::ofstream(source() / "chat_template.jinja")
      << "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ eos_token }}";
  const Engine engine = testing::ConvertAndLoad(context_, source(), folder_);
  const std::vector<ChatMessage> messages{{"user", "hi"}, {"assistant", "yes"}};
  EXPECT_EQ(engine.LoadChatTemplate().Render(messages), "user: hi\nassistant: yes\n<|endoftext|>");
}

}  // namespace
}  // namespace opst
