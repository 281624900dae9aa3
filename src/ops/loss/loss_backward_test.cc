// The router's losses and their gradients on random batches: against fp64, and against finite
// differences of fp64.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/worst_element.h"
#include "opst/ops/loss.h"

namespace opst {
namespace {

enum class Kind { kBalance, kZ, kImportance };

struct Case {
  explicit Case(uint32_t seed) : random(seed) {
    kind = static_cast<Kind>(Pick(0, 2));
    num_tokens = Pick(1, 12);
    num_experts = Pick(1, 9);
    top_k = Pick(1, num_experts);
    options.coefficient = 0.5f;
    options.values = static_cast<RouterValues>(kind == Kind::kZ ? 0 : Pick(0, 2));
    options.count = static_cast<BalanceCount>(Pick(0, 2));
    options.sequence_length = Pick(0, 1) == 1 ? Pick(1, 13) : 0;
    std::normal_distribution<float> normal(0, 1.5f);
    const bool is_probability = options.values == RouterValues::kProbabilities;
    for (int64_t i = 0; i < num_tokens * num_experts; ++i) {
      const float value = normal(random);
      values.push_back(is_probability ? std::abs(value) + 0.1f : value);
    }
    for (int64_t i = 0; i < num_tokens * top_k; ++i) {
      ids.push_back(static_cast<int32_t>(Pick(-1, num_experts - 1)));
    }
    if (Pick(0, 1) == 1) {
      for (int64_t i = 0; i < num_tokens; ++i) is_padding.push_back(Pick(0, 3) == 0 ? 1 : 0);
      options.is_padding = is_padding;
    }
  }
  int64_t Pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
  }
  Shape shape() const { return {num_tokens, num_experts}; }
  RouterLossOptions RouterOptions() const {
    return {options.coefficient, options.values, options.is_padding};
  }

  std::mt19937 random;
  Kind kind;
  int64_t num_tokens, num_experts, top_k;
  BalanceLossOptions options;
  std::vector<float> values;
  std::vector<int32_t> ids;
  std::vector<uint8_t> is_padding;
};

// The definition of all three, in fp64.
class Oracle {
 public:
  explicit Oracle(const Case& request) : request_(request) {}

  double Loss(const std::vector<double>& values) const {
    const auto& options = request_.options;
    const int64_t length = request_.kind == Kind::kBalance && options.sequence_length > 0
                               ? options.sequence_length
                               : request_.num_tokens;
    double loss = 0;
    int count = 0;
    for (int64_t begin = 0; begin < request_.num_tokens; begin += length) {
      std::vector<int64_t> tokens;
      for (int64_t t = begin; t < std::min(begin + length, request_.num_tokens); ++t) {
        const bool is_padding =
            !request_.is_padding.empty() && request_.is_padding[static_cast<size_t>(t)] != 0;
        if (!is_padding) tokens.push_back(t);
      }
      if (tokens.empty()) continue;
      loss += Segment(values, tokens);
      ++count;
    }
    return count == 0 ? 0 : static_cast<double>(options.coefficient) * loss / count;
  }

 private:
  std::vector<double> Probabilities(const std::vector<double>& values, int64_t token,
                                    double& log_sum) const {
    std::vector<double> p;
    double sum = 0;
    for (int64_t e = 0; e < request_.num_experts; ++e) {
      const double x = values[static_cast<size_t>(token * request_.num_experts + e)];
      p.push_back(request_.options.values == RouterValues::kSoftmaxLogits   ? std::exp(x)
                  : request_.options.values == RouterValues::kSigmoidLogits ? 1 / (1 + std::exp(-x))
                                                                            : x);
      sum += p.back();
    }
    log_sum = std::log(sum);
    for (double& x : p) {
      if (request_.options.values != RouterValues::kProbabilities) x /= sum;
    }
    return p;
  }

  double Segment(const std::vector<double>& values, const std::vector<int64_t>& tokens) const {
    const auto n = static_cast<size_t>(request_.num_experts);
    std::vector<double> importance(n, 0.0);
    std::vector<double> counts(n, 0.0);
    double squares = 0;
    double choices = 0;
    for (const int64_t t : tokens) {
      double log_sum = 0;
      const std::vector<double> p = Probabilities(values, t, log_sum);
      for (size_t e = 0; e < n; ++e) importance[e] += p[e];
      squares += log_sum * log_sum;
      for (int64_t j = 0; j < request_.top_k; ++j) {
        const int32_t id = request_.ids[static_cast<size_t>(t * request_.top_k + j)];
        if (id < 0 || (j > 0 && request_.options.count == BalanceCount::kFirstChoice)) continue;
        ++counts[static_cast<size_t>(id)];
        ++choices;
      }
    }
    const auto rows = static_cast<double>(tokens.size());
    const auto experts = static_cast<double>(n);
    if (request_.kind == Kind::kZ) return squares / rows;
    double dot = 0;
    double mean = 0;
    double squared = 0;
    for (size_t e = 0; e < n; ++e) {
      dot += counts[e] * importance[e];
      mean += importance[e] / experts;
      squared += importance[e] * importance[e] / experts;
    }
    if (request_.kind == Kind::kImportance) return (squared - mean * mean) / (mean * mean);
    const double divisor = request_.options.count == BalanceCount::kPerToken ? rows : choices;
    return divisor == 0 ? 0 : experts * dot / divisor / rows;
  }

  const Case& request_;
};

double Forward(const Context& context, const Case& request) {
  const ConstTensorView values(request.values.data(), request.shape());
  switch (request.kind) {
    case Kind::kBalance:
      return BalanceLoss(
          context, values,
          ConstTensorView(request.ids.data(), Shape{request.num_tokens, request.top_k}),
          request.options);
    case Kind::kZ:
      return RouterZLoss(context, values, request.RouterOptions());
    case Kind::kImportance:
      return ImportanceLoss(context, values, request.RouterOptions());
  }
  return 0;
}

void Backward(const Context& context, const Case& request, double d_loss, TensorView d_values) {
  const ConstTensorView values(request.values.data(), request.shape());
  const ConstTensorView ids(request.ids.data(), Shape{request.num_tokens, request.top_k});
  switch (request.kind) {
    case Kind::kBalance:
      return BalanceLossBackward(context, values, ids, request.options, d_loss, d_values);
    case Kind::kZ:
      return RouterZLossBackward(context, values, request.RouterOptions(), d_loss, d_values);
    case Kind::kImportance:
      return ImportanceLossBackward(context, values, request.RouterOptions(), d_loss, d_values);
  }
}

class RouterLossRandomTest : public EachIsaTest {};

TEST_P(RouterLossRandomTest, LossesAndGradientsAreThoseOfFp64) {
  constexpr double kStep = 1e-5;
  constexpr double kDLoss = 2;
  const Context fast = MakeContext(1);
  const Context reference = MakeReferenceContext();
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    const Case request(seed);
    const Oracle oracle(request);
    std::vector<double> values(request.values.begin(), request.values.end());
    const double wanted = oracle.Loss(values);
    // Scores within 16 ulp; the losses are sums of products of at most two of them, times E.
    const double tolerance = 64 * 0x1p-24 * (std::abs(wanted) + 1);
    ASSERT_NEAR(Forward(fast, request), wanted, tolerance) << seed;
    ASSERT_NEAR(Forward(reference, request), wanted, tolerance) << seed;
    std::vector<float> got(values.size(), 1.0f);  // the gradient is added
    std::vector<float> slow(values.size(), 1.0f);
    Backward(fast, request, kDLoss, TensorView(got.data(), request.shape()));
    Backward(reference, request, kDLoss, TensorView(slow.data(), request.shape()));
    WorstElement worst;
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      values[i] = value + kStep;
      const double above = oracle.Loss(values);
      values[i] = value - kStep;
      const double below = oracle.Loss(values);
      values[i] = value;
      const double slope = 1 + kDLoss * (above - below) / (2 * kStep);
      const double slack = 64 * 0x1p-24 * (std::abs(slope) + std::abs(wanted) + 1) + 1e-8;
      const auto row = static_cast<int64_t>(i) / request.num_experts;
      const auto column = static_cast<int64_t>(i) % request.num_experts;
      worst.Add(row, column, static_cast<double>(got[i]), slope, slack);
      worst.Add(row, column, static_cast<double>(slow[i]), slope, slack);
    }
    ASSERT_TRUE(worst.is_within_tolerance()) << "case " << seed << ": " << worst;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, RouterLossRandomTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(RouterLossThreadsTest, SameBitsForAnyNumberOfThreadsAndStrides) {
  constexpr int64_t kTokens = 20'000;
  constexpr int64_t kExperts = 6;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> logits(kTokens * 8, std::numeric_limits<float>::quiet_NaN());
  std::vector<int32_t> ids;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i % 8 < kExperts) logits[i] = normal(random);
  }
  for (int64_t i = 0; i < kTokens; ++i) ids.push_back(static_cast<int32_t>(random() % kExperts));
  const ConstTensorView values(logits.data(), DType::kF32, Shape{kTokens, kExperts}, 8);
  const ConstTensorView chosen(ids.data(), Shape{kTokens, 1});
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  for (const int threads : {1, 2, 5}) {
    const Context context = MakeContext(threads);
    for (const int64_t length : {0, 100}) {
      const BalanceLossOptions options{.sequence_length = length};
      losses.push_back(BalanceLoss(context, values, chosen, options));
      gradients.emplace_back(kTokens * kExperts, 0.0f);
      BalanceLossBackward(context, values, chosen, options, 1,
                          TensorView(gradients.back().data(), Shape{kTokens, kExperts}));
    }
    losses.push_back(RouterZLoss(context, values));
    losses.push_back(ImportanceLoss(context, values));
  }
  for (size_t i = 4; i < losses.size(); ++i) EXPECT_EQ(losses[i], losses[i % 4]) << i;
  for (size_t i = 2; i < gradients.size(); ++i) EXPECT_EQ(gradients[i], gradients[i % 2]) << i;
}

// Masked values and rows that are left out keep what stood in their gradient.
TEST(RouterLossEdgesTest, WhatHasNoPartInTheLossKeepsItsGradient) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {1, -kInfinity, 2, 5, 5, 5, -kInfinity, -kInfinity, -kInfinity};
  const std::vector<int32_t> ids = {0, 1, 2};
  const std::vector<uint8_t> is_padding = {0, 1, 0};
  const ConstTensorView values(logits.data(), Shape{3, 3});
  const ConstTensorView chosen(ids.data(), Shape{3, 1});
  for (const char* implementation : {"auto", "reference"}) {
    const Context context = MakeContext(1, {{"implementation", implementation}});
    std::vector<float> d(9, 3.0f);
    const TensorView d_view(d.data(), Shape{3, 3});
    BalanceLossBackward(context, values, chosen, {.is_padding = is_padding}, 1, d_view);
    RouterZLossBackward(context, values, {.is_padding = is_padding}, 1, d_view);
    const RouterLossOptions importance{0.1f, RouterValues::kSigmoidLogits, is_padding};
    ImportanceLossBackward(context, values, importance, 1, d_view);
    for (size_t i = 0; i < 9; ++i) EXPECT_EQ(d[i] == 3.0f, i != 0 && i != 2) << i;
  }
}

}  // namespace
}  // namespace opst
