// Random rows under every selection rule, with load, bias, groups and padding, against fp64; and
// the same bits for any number of threads.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "opst/ops/gating.h"

namespace opst {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Values of f64 and f32 closer than this may stand in another order, or on the other side of a
// threshold.
constexpr double kNear = 2e-6;

// One random request; logits are continuous, so that near ties are rare.
struct Case {
  explicit Case(uint32_t seed) : random(seed) {
    const int64_t num_experts = Pick(1, Chance(0.3) ? 300 : 20);
    options.top_k = Pick(1, std::min<int64_t>(num_experts, 9));
    const ScoreFunction functions[] = {ScoreFunction::kSoftmax, ScoreFunction::kSigmoid,
                                       ScoreFunction::kSoftmaxOfChosen};
    options.score_function = functions[Pick(0, 2)];
    PickSelection();
    PickModifiers(static_cast<size_t>(num_experts));
    shape = Shape{Pick(1, 4), num_experts};
    std::normal_distribution<double> normal(0, Chance(0.3) ? 6 : 1.5);
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const bool is_masked = Chance(0.05);
      logits.push_back(is_masked ? -std::numeric_limits<float>::infinity()
                                 : static_cast<float>(normal(random)));
    }
    if (!Chance(0.4)) return;
    for (int64_t token = 0; token < shape[0]; ++token) is_padding.push_back(Chance(0.3) ? 1 : 0);
    options.is_padding = is_padding;
  }

  void PickSelection() {
    SelectionOptions& selection = options.selection;
    selection.rule = static_cast<SelectionRule>(Pick(0, 3));
    selection.threshold = Chance(0.4) ? 0.0f : static_cast<float>(Pick(1, 60)) / 100;
    selection.top_p = static_cast<float>(Pick(5, 100)) / 100;
    double entropy = 0;
    int64_t count = 0;
    do {
      entropy += static_cast<double>(Pick(5, 45)) / 100;
      count += Pick(1, 2);
      if (entropy > 1 || count > options.top_k) break;
      selection.entropy_thresholds.push_back({static_cast<float>(entropy), count});
    } while (Chance(0.7));
    if (selection.entropy_thresholds.empty()) selection.entropy_thresholds = {{0.5f, 1}};
  }
  void PickModifiers(size_t num_experts) {
    options.renormalizes = Chance(0.6);
    options.scale = Chance(0.7) ? 1.0f : 2.5f;
    if (Chance(0.2)) options.renormalization_epsilon = 1e-3f;
    if (Chance(0.3)) {
      for (size_t i = 0; i < num_experts; ++i) bias.push_back(static_cast<float>(Uniform() * 0.3));
      options.selection_bias = bias;
    }
    if (!Chance(0.4)) return;
    for (size_t i = 0; i < num_experts; ++i) load.push_back(static_cast<float>(Uniform() * 4));
    options.utilization = load;
    options.load_balance_ratio = static_cast<float>(Uniform() * 2);
  }

  int64_t Pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
  }
  double Uniform() { return static_cast<double>(random()) * 0x1p-32; }
  bool Chance(double share) { return Uniform() < share; }
  ConstTensorView view() const { return {logits.data(), shape}; }

  std::mt19937 random;
  GatingOptions options;
  Shape shape;
  std::vector<float> logits;
  std::vector<float> bias;
  std::vector<float> load;
  std::vector<uint8_t> is_padding;
};

// One row in fp64: what it takes, and how close the nearest decision was.
struct RowOracle {
  RowOracle(const Case& request, int64_t row) : options(request.options) {
    const auto n = static_cast<size_t>(request.shape[1]);
    const float* first = request.logits.data() + row * request.shape[1];
    logits.assign(first, first + n);
    const double max = *std::max_element(logits.begin(), logits.end());
    if (max == -kInfinity) return;
    const bool is_sigmoid = options.score_function == ScoreFunction::kSigmoid;
    for (const double logit : logits) {
      scores.push_back(is_sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit - max));
      total += scores.back();
    }
    if (!is_sigmoid) {
      for (double& score : scores) score /= total;
      total = 1;
    }
    std::vector<double> values = scores;
    for (size_t i = 0; i < n; ++i) {
      if (options.load_balance_ratio > 0) {
        values[i] *= std::pow(std::max(1.0, static_cast<double>(request.load[i])),
                              -static_cast<double>(options.load_balance_ratio));
      }
      if (!request.bias.empty()) values[i] += static_cast<double>(request.bias[i]);
      if (logits[i] == -kInfinity) values[i] = -kInfinity;
    }
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return values[a] > values[b]; });
    const auto top_k = static_cast<size_t>(options.top_k);
    for (size_t i = 0; i < std::min(top_k, n - 1); ++i) {
      const double gap = values[order[i]] - values[order[i + 1]];
      if (!std::isnan(gap)) margin = std::min(margin, gap);  // of -inf: ties in id order
    }
    Apply(order);
  }

  void Apply(const std::vector<size_t>& order) {
    const std::vector<size_t> best(order.begin(), order.begin() + options.top_k);
    switch (options.selection.rule) {
      case SelectionRule::kTopK:
        chosen = best;
        return;
      case SelectionRule::kThreshold: {
        const double e = static_cast<double>(scores.size());
        const double delta = options.selection.threshold == 0
                                 ? 1 / e
                                 : static_cast<double>(options.selection.threshold);
        for (const size_t expert : best) {
          const double p = scores[expert] / total;
          margin = std::min(margin, std::abs(p - delta));
          if (p > delta) chosen.push_back(expert);
        }
        if (chosen.empty()) chosen.push_back(best[0]);
        return;
      }
      case SelectionRule::kTopP: {
        double sum = 0;
        for (const size_t expert : best) {
          const double p = scores[expert] / total;
          const double missing = static_cast<double>(options.selection.top_p) - sum;
          if (!chosen.empty()) margin = std::min(margin, std::abs(missing));
          if (!chosen.empty() && (missing <= 0 || p == 0)) continue;
          chosen.push_back(expert);
          sum += p;
        }
        return;
      }
      case SelectionRule::kEntropy:
        ApplyEntropy(best);
        return;
    }
  }
  void ApplyEntropy(const std::vector<size_t>& best) {
    double entropy = 0;
    for (const double score : scores) {
      const double p = score / total;
      if (p > 0) entropy -= p * std::log(p);
    }
    if (scores.size() > 1) entropy /= std::log(static_cast<double>(scores.size()));
    chosen = best;
    for (const EntropyThreshold& step : options.selection.entropy_thresholds) {
      margin = std::min(margin, std::abs(entropy - static_cast<double>(step.entropy)));
      if (!(entropy < static_cast<double>(step.entropy))) continue;
      chosen.resize(static_cast<size_t>(step.num_experts));
      return;
    }
  }

  std::vector<double> Weights() const {
    const bool is_of_chosen = options.score_function == ScoreFunction::kSoftmaxOfChosen;
    double sum = is_of_chosen ? 0 : static_cast<double>(options.renormalization_epsilon);
    std::vector<double> weights;
    for (const size_t expert : chosen) {
      weights.push_back(scores[expert]);
      sum += weights.back();
    }
    const bool divides = (options.renormalizes || is_of_chosen) && sum > 0;
    for (double& weight : weights) {
      weight = (divides ? weight / sum : weight) * static_cast<double>(options.scale);
    }
    return weights;
  }

  const GatingOptions& options;
  std::vector<double> logits;
  std::vector<double> scores;
  double total = 0;
  std::vector<size_t> chosen;
  double margin = 1;  // distance of the nearest decision from the other outcome
};

void ExpectRow(const RowOracle& oracle, const int32_t* ids, const float* weights) {
  const std::vector<double> wanted = oracle.Weights();
  for (size_t slot = 0; slot < static_cast<size_t>(oracle.options.top_k); ++slot) {
    if (slot >= oracle.chosen.size()) {
      ASSERT_EQ(ids[slot], -1) << "slot " << slot;
      ASSERT_EQ(weights[slot], 0.0f) << "slot " << slot;
      continue;
    }
    ASSERT_EQ(ids[slot], static_cast<int32_t>(oracle.chosen[slot])) << "slot " << slot;
    ASSERT_NEAR(weights[slot], wanted[slot], 4e-6 * static_cast<double>(oracle.options.scale));
  }
}

class SelectionRandomTest : public EachIsaTest {};

TEST_P(SelectionRandomTest, EveryRuleTakesWhatItTakesInFp64) {
  constexpr uint32_t kCases = 1500;
  const Context fast = MakeContext(1, {{"log", "error"}});
  const Context reference = MakeContext(1, {{"log", "error"}, {"implementation", "reference"}});
  int num_rows = 0;
  int num_unclear = 0;
  for (uint32_t seed = 0; seed < kCases; ++seed) {
    const Case request(seed);
    for (const Context* context : {&fast, &reference}) {
      const GatingResult result = Gate(*context, request.view(), request.options);
      for (int64_t row = 0; row < request.shape[0]; ++row, ++num_rows) {
        SCOPED_TRACE(testing::Message() << "case " << seed << ", row " << row);
        const int32_t* ids = &result.expert_ids[static_cast<size_t>(row * request.options.top_k)];
        const float* weights =
            &result.expert_weights[static_cast<size_t>(row * request.options.top_k)];
        if (!request.is_padding.empty() && request.is_padding[static_cast<size_t>(row)] != 0) {
          ASSERT_EQ(std::count(ids, ids + request.options.top_k, -1), request.options.top_k);
          continue;
        }
        const RowOracle oracle(request, row);
        if (oracle.scores.empty()) {
          ASSERT_EQ(ids[0], 0);
          ASSERT_EQ(weights[0], 0.0f);
        } else if (oracle.margin < kNear) {
          ++num_unclear;
        } else {
          ExpectRow(oracle, ids, weights);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_LE(num_unclear, num_rows / 20);
}

TEST_P(SelectionRandomTest, SameBitsForAnyNumberOfThreadsAndNeighbours) {
  constexpr int64_t kTokens = 200;
  constexpr int64_t kExperts = 37;
  std::mt19937 random(3);
  std::vector<float> logits(kTokens * kExperts);
  for (float& logit : logits) logit = static_cast<float>(random() % 4000) * 1e-3f;
  std::vector<float> load(kExperts, 1.7f);
  for (const SelectionRule rule :
       {SelectionRule::kThreshold, SelectionRule::kTopP, SelectionRule::kEntropy}) {
    GatingOptions options{.top_k = 8};
    options.selection = {rule, 0.05f, 0.5f, {{0.9f, 2}, {0.95f, 5}}};
    options.utilization = load;
    options.load_balance_ratio = 0.5f;
    options.returns_scores = true;
    const ConstTensorView all(logits.data(), Shape{kTokens, kExperts});
    const GatingResult wanted = Gate(MakeContext(1), all, options);
    for (const int threads : {2, 5}) {
      const GatingResult result = Gate(MakeContext(threads), all, options);
      EXPECT_EQ(result.expert_ids, wanted.expert_ids);
      EXPECT_EQ(result.expert_weights, wanted.expert_weights);
      EXPECT_EQ(result.scores, wanted.scores);
    }
    const ConstTensorView one(logits.data() + 123 * kExperts, Shape{1, kExperts});
    const GatingResult alone = Gate(MakeContext(1), one, options);
    EXPECT_TRUE(std::equal(alone.expert_ids.begin(), alone.expert_ids.end(),
                           wanted.expert_ids.begin() + 123 * 8));
    EXPECT_TRUE(std::equal(alone.expert_weights.begin(), alone.expert_weights.end(),
                           wanted.expert_weights.begin() + 123 * 8));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, SelectionRandomTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
