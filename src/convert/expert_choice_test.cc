// Batches of sequences, and experts that a caller chooses: against single runs, other recipes and
// plans.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "convert/testing/checkpoint_copy.h"
#include "opst/convert.h"
#include "opst/model.h"

namespace opst {
namespace {

using testing::CheckpointCopy;

Model ConvertCopy(const Context& context, const CheckpointCopy& copy) {
  Convert(context, copy.Write(), copy.output(), {.overwrites = true});
  return Model::Load(context, copy.output());
}

std::vector<int32_t> SomeTokens(const Model& model, int32_t first, size_t count) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] =
        static_cast<int32_t>((first + 7 * static_cast<int64_t>(i)) % model.config().vocab_size);
  }
  return tokens;
}

std::vector<float> LastLogits(const Context& context, const Model& model, Sequence& sequence,
                              const std::vector<int32_t>& tokens,
                              const ForwardOptions& options = {}) {
  std::vector<float> logits(static_cast<size_t>(model.config().vocab_size));
  model.Forward(context, tokens, sequence,
                TensorView(logits.data(), Shape{1, model.config().vocab_size}), options);
  return logits;
}

std::vector<float> LastLogits(const Context& context, const Model& model,
                              const std::vector<int32_t>& tokens,
                              const ForwardOptions& options = {}) {
  Sequence sequence = model.NewSequence(static_cast<int64_t>(tokens.size()));
  return LastLogits(context, model, sequence, tokens, options);
}

// Lengths 5, 1 and 9 after 0, 4 and 2 earlier tokens.
void ExpectBatchIsSingleRuns(const std::string& checkpoint) {
  SCOPED_TRACE(checkpoint);
  const Context context;
  const CheckpointCopy copy(checkpoint);
  const Model model = ConvertCopy(context, copy);
  const int64_t vocabulary = model.config().vocab_size;
  const std::vector<size_t> lengths{5, 1, 9};
  const std::vector<size_t> earlier{0, 4, 2};
  std::vector<Sequence> alone;
  std::vector<Sequence> together;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<BatchEntry> entries;
  for (size_t i = 0; i < lengths.size(); ++i) {
    tokens.push_back(SomeTokens(model, static_cast<int32_t>(3 * i), lengths[i]));
    for (std::vector<Sequence>* sequences : {&alone, &together}) {
      sequences->push_back(model.NewSequence(20));
      const auto prefix = SomeTokens(model, 11, earlier[i]);
      if (!prefix.empty()) LastLogits(context, model, sequences->back(), prefix);
    }
  }
  for (size_t i = 0; i < lengths.size(); ++i) entries.push_back({tokens[i], &together[i]});
  std::vector<float> logits(lengths.size() * static_cast<size_t>(vocabulary));
  model.ForwardBatch(context, entries, TensorView(logits.data(), Shape{3, vocabulary}));
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(i) * vocabulary;
    const std::vector<float> row(begin, begin + vocabulary);
    EXPECT_EQ(row, LastLogits(context, model, alone[i], tokens[i])) << "sequence " << i;
    EXPECT_EQ(together[i].length(), static_cast<int64_t>(earlier[i] + lengths[i]));
    // What the batch left in the cache is what the single run left there.
    const std::vector<int32_t> next{1};
    EXPECT_EQ(LastLogits(context, model, together[i], next),
              LastLogits(context, model, alone[i], next));
  }
}

TEST(ForwardBatchTest, EverySequenceHasTheBitsItHasAlone) {
  for (const char* checkpoint :
       {"qwen3-moe", "deepseek-v3", "gpt-oss", "phimoe", "llama-dynamic"}) {
    ExpectBatchIsSingleRuns(checkpoint);
  }
}

TEST(ForwardBatchTest, RefusesWrongBatchesAndLeavesTheSequences) {
  const Context context;
  const CheckpointCopy copy("olmoe");
  const Model model = ConvertCopy(context, copy);
  Sequence sequence = model.NewSequence(4);
  std::vector<float> logits(static_cast<size_t>(2 * model.config().vocab_size));
  const TensorView two(logits.data(), Shape{2, model.config().vocab_size});
  const std::vector<int32_t> token{1};
  const std::vector<BatchEntry> twice{{token, &sequence}, {token, &sequence}};
  EXPECT_THROW(model.ForwardBatch(context, twice, two), Error);
  EXPECT_THROW(model.ForwardBatch(context, {}, two), Error);
  const std::vector<BatchEntry> one{{token, &sequence}};
  EXPECT_THROW(model.ForwardBatch(context, one, two), Error);
  EXPECT_EQ(sequence.length(), 0);
}

TEST(SequenceTest, TruncatingGoesBackInTime) {
  const Context context;
  const CheckpointCopy copy("mixtral");
  const Model model = ConvertCopy(context, copy);
  const std::vector<int32_t> prefix = SomeTokens(model, 2, 6);
  const std::vector<int32_t> other = SomeTokens(model, 30, 3);
  Sequence sequence = model.NewSequence(20);
  LastLogits(context, model, sequence, prefix);
  const auto expected = LastLogits(context, model, sequence, other);
  sequence.Truncate(6);
  LastLogits(context, model, sequence, SomeTokens(model, 5, 8));
  sequence.Truncate(6);
  EXPECT_EQ(LastLogits(context, model, sequence, other), expected);
  EXPECT_THROW(sequence.Truncate(10), Error);
}

// top_k of the config is an independent way to the same arithmetic.
TEST(ExpertChoiceTest, FewerActiveExpertsIsTheModelWithThatTopK) {
  const Context context;
  for (const std::string family : {"mixtral", "olmoe", "qwen3-moe"}) {  // olmoe: not renormalised
    CheckpointCopy copy(family);
    const CheckpointCopy original(family);
    const Model model = ConvertCopy(context, original);
    for (const int64_t active : {1, 4}) {
      copy.config()["num_experts_per_tok"] = active;
      const Model changed = ConvertCopy(context, copy);
      const std::vector<int32_t> tokens = SomeTokens(model, 4, 9);
      EXPECT_EQ(LastLogits(context, model, tokens, {.experts = {.active_experts = active}}),
                LastLogits(context, changed, tokens))
          << family << " with " << active;
    }
  }
}

// Plans of the first layer with experts: its input does not depend on the choice.
RoutingPlan FirstPlan(const Context& context, const Model& model, const ExpertChoice& experts,
                      int64_t layer) {
  RoutingPlan first;
  LastLogits(context, model, SomeTokens(model, 1, 12),
             {.experts = experts, .on_routing = [&](int64_t index, const RoutingPlan& plan) {
                if (index == layer) first = plan;
              }});
  return first;
}

TEST(ExpertChoiceTest, MaskedExpertsGiveTheirPlaceToTheNextBest) {
  const Context context;
  const CheckpointCopy copy("qwen3-moe");  // E 5, k 2, layer 0 dense
  const Model model = ConvertCopy(context, copy);
  const RoutingPlan all = FirstPlan(context, model, {.active_experts = 5}, 1);
  const RoutingPlan masked =
      FirstPlan(context, model, {.masked = {{.expert = 3}, {.layer = 1, .expert = 0}}}, 1);
  ASSERT_EQ(masked.top_k, 2);
  for (size_t token = 0; token < 12; ++token) {
    std::vector<int32_t> order;
    float sum = 0;
    std::vector<float> weights;
    for (size_t slot = 0; slot < 5; ++slot) {
      const int32_t expert = all.expert_ids[token * 5 + slot];
      if (expert == 3 || expert == 0) continue;
      order.push_back(expert);
      weights.push_back(all.expert_weights[token * 5 + slot]);
    }
    sum = weights[0] + weights[1];
    for (size_t slot = 0; slot < 2; ++slot) {
      EXPECT_EQ(masked.expert_ids[token * 2 + slot], order[slot]);
      EXPECT_NEAR(masked.expert_weights[token * 2 + slot], weights[slot] / sum, 1e-6);
    }
  }
}

TEST(ExpertChoiceTest, ForcedExpertsAreTheOnlyOnesOfTheirLayer) {
  const Context context;
  const CheckpointCopy copy("qwen3-moe");
  const Model model = ConvertCopy(context, copy);
  const RoutingPlan plan = FirstPlan(context, model, {.forced = {{.layer = 1, .expert = 4}}}, 1);
  EXPECT_EQ(plan.top_k, 1);
  EXPECT_EQ(plan.expert_ids, std::vector<int32_t>(12, 4));
  EXPECT_EQ(plan.expert_weights, std::vector<float>(12, 1.0f));
}

TEST(ExpertChoiceTest, RefusesWhatTheModelDoesNotHave) {
  const Context context;
  const CheckpointCopy copy("olmoe");  // E 8
  const Model model = ConvertCopy(context, copy);
  const auto refuses = [&](const ExpertChoice& experts, const std::string& part) {
    const std::string error = Rejection([&] { model.CheckExperts(experts); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  refuses({.active_experts = 9}, "active experts must be 1..8; got 9");
  refuses({.active_experts = -1}, "active experts must be 1..8; got -1");
  refuses({.masked = {{.expert = 8}}}, "experts must be 0..7; got 8");
  refuses({.masked = {{.layer = 99, .expert = 0}}}, "layers must be 0..");
  refuses({.masked = {{.expert = 2}}, .forced = {{.expert = 2}}}, "at least one expert");
  EXPECT_NO_THROW(model.CheckExperts({.active_experts = 8}));
}

}  // namespace
}  // namespace opst
