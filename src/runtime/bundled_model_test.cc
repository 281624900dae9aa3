// The bundled model end to end: conversion, held-out perplexity as transformers states it, and
// text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/testing/bundled_model.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "io/file.h"
#include "opst/engine.h"
#include "runtime/expert_usage.h"

namespace opst {
namespace {

using testing::kBundledSource;

class BundledModelTest : public ::testing::Test {
 protected:
  const Context* context_ = &testing::BundledModel::Get().context;
  const Engine* engine_ = &testing::BundledModel::Get().engine;
};

TEST_F(BundledModelTest, HeldOutPerplexityIsTheOneItsReadmeStates) {
  const auto stated =
      nlohmann::json::parse(ReadWholeFile((kBundledSource / "heldout.json").string(), 1e6));
  const std::string text =
      ReadWholeFile((kBundledSource / stated["file"].get<std::string>()).string(), 1e7);
  const auto tokens = engine_->tokenizer().Encode(text, {.add_special_tokens = false});
  const PerplexityResult result =
      engine_->Perplexity(*context_, tokens, {.window = stated["window"].get<int64_t>()});
  EXPECT_EQ(result.num_windows, stated["num_windows"].get<int64_t>());
  EXPECT_EQ(result.num_predicted, stated["num_predicted"].get<int64_t>());
  // Both evaluate the same bf16 weights in f32; only the order of sums differs.
  EXPECT_NEAR(result.nll, stated["nll"].get<double>(), 2e-5);
}

TEST_F(BundledModelTest, GreedyTextIsTheSameForAnyChunkingAndThreads) {
  GenerateOptions options{.max_new_tokens = 40};
  const std::string prompt = "It is a truth universally acknowledged, that a single man in";
  const GenerateResult whole = engine_->Generate(*context_, prompt, options);
  EXPECT_FALSE(whole.text.empty());
  const Context one_worker({.num_threads = 1});
  options.prefill_chunk = 3;
  EXPECT_EQ(engine_->Generate(one_worker, prompt, options).text, whole.text);
}

TEST_F(BundledModelTest, SampledTextRepeatsWithItsSeed) {
  const GenerateOptions options{.max_new_tokens = 30,
                                .sampling = {.temperature = 1, .top_k = 40, .seed = 11}};
  const GenerateResult first = engine_->Generate(*context_, "She was", options);
  const Context one_worker({.num_threads = 1});
  EXPECT_EQ(engine_->Generate(one_worker, "She was", options).text, first.text);
}

TEST_F(BundledModelTest, StreamedPiecesAreTheText) {
  std::string streamed;
  GenerateOptions options{.max_new_tokens = 20};
  options.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  EXPECT_EQ(engine_->Generate(*context_, "And God said", options).text, streamed);
}

TEST_F(BundledModelTest, ReturningFalseStopsAtOnce) {
  GenerateOptions options{.max_new_tokens = 20};
  options.on_text = [](std::string_view) { return false; };
  const GenerateResult result = engine_->Generate(*context_, "And God said", options);
  EXPECT_EQ(result.stop_reason, StopReason::kCancelled);
  EXPECT_LE(result.new_tokens.size(), 2u);
}

TEST_F(BundledModelTest, UsageCountsEveryTokenInEveryLayer) {
  ExpertUsage usage;
  GenerateOptions options{.max_new_tokens = 5};
  options.on_routing = [&](int64_t layer, const RoutingPlan& plan) { usage.Add(layer, plan); };
  const GenerateResult result = engine_->Generate(*context_, "And God said", options);
  ASSERT_FALSE(usage.layers().empty());
  // The last new token is returned, not fed back.
  const auto fed = static_cast<int64_t>(result.prompt_tokens.size() + result.new_tokens.size()) - 1;
  for (size_t layer = 0; layer < usage.layers().size(); ++layer) {
    EXPECT_EQ(usage.num_tokens(layer), fed);
    int64_t rows = 0;
    for (const int64_t count : usage.Counts(layer)) rows += count;
    EXPECT_EQ(rows, fed * engine_->model().config().routing.top_k);
  }
}

TEST_F(BundledModelTest, RefusesAnEmptyPromptAndOptionsOutOfRange) {
  EXPECT_THROW(engine_->Generate(*context_, ""), Error);
  EXPECT_THROW(engine_->Generate(*context_, "a", {.max_new_tokens = 0}), Error);
  EXPECT_THROW(engine_->Generate(*context_, "a", {.prefill_chunk = 0}), Error);
  const std::vector<int32_t> ten(10, 1);
  EXPECT_THROW(engine_->Perplexity(*context_, ten, {.window = 11}), Error);
  EXPECT_THROW(engine_->Perplexity(*context_, ten, {.window = 1}), Error);
  EXPECT_THROW(engine_->Perplexity(*context_, ten, {.window = 5, .batch_size = 0}), Error);
}

}  // namespace
}  // namespace opst
