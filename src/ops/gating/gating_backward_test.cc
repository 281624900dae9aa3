// Tests of the gradient of gating against finite differences in fp64, and of its edges.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/worst_element.h"
#include "opst/ops/gating.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Loss of one row, Σ d_weights · weights with the experts held fixed.
double Loss(const GatingOptions& options, const std::vector<double>& logits,
            const std::vector<int32_t>& ids, const std::vector<float>& d_weights) {
  const bool is_sigmoid = options.score_function == ScoreFunction::kSigmoid;
  double total = 0;
  for (const double logit : logits) total += std::exp(logit);
  std::vector<double> chosen;
  double sum = 0;
  for (const int32_t id : ids) {
    const double logit = id < 0 ? 0 : logits[static_cast<size_t>(id)];
    chosen.push_back(is_sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit) / total);
    if (id >= 0) sum += chosen.back();
  }
  const bool is_of_chosen = options.score_function == ScoreFunction::kSoftmaxOfChosen;
  if (!is_of_chosen) sum += static_cast<double>(options.renormalization_epsilon);
  if (!options.renormalizes && !is_of_chosen) sum = 1;
  double loss = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) continue;
    loss +=
        static_cast<double>(d_weights[i]) * chosen[i] / sum * static_cast<double>(options.scale);
  }
  return loss;
}

struct Case {
  explicit Case(uint32_t seed) : random(seed) {
    const int64_t num_experts = Pick(1, 24);
    options.top_k = Pick(1, std::min<int64_t>(num_experts, 8));
    const ScoreFunction functions[] = {ScoreFunction::kSoftmax, ScoreFunction::kSigmoid,
                                       ScoreFunction::kSoftmaxOfChosen};
    options.score_function = functions[Pick(0, 2)];
    options.renormalizes = Pick(0, 1) == 1;
    options.scale = Pick(0, 1) == 1 ? 2.5f : 1.0f;
    if (Pick(0, 3) == 0) options.renormalization_epsilon = 0.1f;
    options.selection.rule = static_cast<SelectionRule>(Pick(0, 2));
    options.selection.top_p = 0.7f;
    if (Pick(0, 2) == 0) {
      for (int64_t i = 0; i < num_experts; ++i) bias.push_back(Normal());
      options.selection_bias = bias;
    }
    shape = Shape{Pick(1, 3), num_experts};
    for (int64_t i = 0; i < shape.num_elements(); ++i) logits.push_back(2 * Normal());
    for (int64_t i = 0; i < shape[0] * options.top_k; ++i) d_weights.push_back(Normal());
  }
  int64_t Pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
  }
  float Normal() { return normal(random); }
  ConstTensorView view() const { return {logits.data(), shape}; }
  Shape slots() const { return {shape[0], options.top_k}; }

  std::mt19937 random;
  std::normal_distribution<float> normal;
  GatingOptions options;
  Shape shape;
  std::vector<float> logits;
  std::vector<float> bias;
  std::vector<float> d_weights;
};

std::vector<float> Backward(const Context& context, const Case& request,
                            const GatingResult& result) {
  std::vector<float> d_logits(request.logits.size(), kNan);
  GateBackward(context, request.view(), result,
               ConstTensorView(request.d_weights.data(), request.slots()), request.options,
               TensorView(d_logits.data(), request.shape));
  return d_logits;
}

class GateBackwardTest : public EachIsaTest {};

TEST_P(GateBackwardTest, AgreesWithFiniteDifferences) {
  constexpr double kStep = 1e-5;  // error of central differences: about kStep² and 1e-16 / kStep
  const Context fast = MakeContext(1);
  const Context reference = MakeReferenceContext();
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const Case request(seed);
    const GatingResult result = Gate(fast, request.view(), request.options);
    const std::vector<float> got = Backward(fast, request, result);
    const std::vector<float> slow = Backward(reference, request, result);
    const auto n = static_cast<size_t>(request.shape[1]);
    const auto top_k = static_cast<size_t>(request.options.top_k);
    WorstElement worst;
    for (size_t row = 0; row < static_cast<size_t>(request.shape[0]); ++row) {
      const auto first = request.logits.begin() + static_cast<std::ptrdiff_t>(row * n);
      const auto slot = static_cast<std::ptrdiff_t>(row * top_k);
      const std::vector<int32_t> ids(result.expert_ids.begin() + slot,
                                     result.expert_ids.begin() + slot + request.options.top_k);
      const std::vector<float> d_weights(request.d_weights.begin() + slot,
                                         request.d_weights.begin() + slot + request.options.top_k);
      double magnitude = 0;
      for (const float d : d_weights) {
        magnitude += std::abs(static_cast<double>(d * request.options.scale));
      }
      for (size_t i = 0; i < n; ++i) {
        std::vector<double> logits(first, first + static_cast<std::ptrdiff_t>(n));
        logits[i] += kStep;
        const double above = Loss(request.options, logits, ids, d_weights);
        logits[i] -= 2 * kStep;
        const double below = Loss(request.options, logits, ids, d_weights);
        const double wanted = (above - below) / (2 * kStep);
        // Slopes are at most 1 / 4 of the terms; scores have errors of up to 8 + 16 ulp.
        const double tolerance = 40 * 0x1p-24 * magnitude + 1e-9;
        worst.Add(static_cast<int64_t>(row), static_cast<int64_t>(i), got[row * n + i], wanted,
                  tolerance);
        worst.Add(static_cast<int64_t>(row), static_cast<int64_t>(i), slow[row * n + i], wanted,
                  tolerance);
      }
    }
    ASSERT_TRUE(worst.is_within_tolerance()) << "case " << seed << ": " << worst;
  }
}

TEST_P(GateBackwardTest, SameBitsForAnyNumberOfThreadsInPlaceAndWithStrides) {
  constexpr int64_t kTokens = 150;
  constexpr int64_t kExperts = 13;
  constexpr int64_t kTopK = 3;
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> logits(kTokens * kExperts);
  std::vector<float> d_weights(kTokens * kTopK);
  for (float& value : logits) value = normal(random);
  for (float& value : d_weights) value = normal(random);
  const Shape shape{kTokens, kExperts};
  const ConstTensorView view(logits.data(), shape);
  const ConstTensorView d_view(d_weights.data(), Shape{kTokens, kTopK});
  for (const bool renormalizes : {false, true}) {
    const GatingOptions options{.top_k = kTopK, .renormalizes = renormalizes};
    const GatingResult result = Gate(MakeContext(1), view, options);
    std::vector<float> wanted(logits.size());
    GateBackward(MakeContext(1), view, result, d_view, options, TensorView(wanted.data(), shape));
    std::vector<float> in_place = logits;
    GateBackward(MakeContext(3), TensorView(in_place.data(), shape), result, d_view, options,
                 TensorView(in_place.data(), shape));
    EXPECT_EQ(in_place, wanted);
    std::vector<float> strided(kTokens * 16, 7.0f);
    GateBackward(MakeContext(2), view, result, d_view, options,
                 TensorView(strided.data(), DType::kF32, shape, 16));
    for (size_t i = 0; i < strided.size(); ++i) {
      const size_t column = i % 16;
      EXPECT_EQ(strided[i], column < kExperts ? wanted[i / 16 * kExperts + column] : 7.0f);
    }
  }
}

TEST_P(GateBackwardTest, MaskedSaturatedAndPaddedRowsHaveNoGradient) {
  const std::vector<float> logits = {kNan,       -kInfinity, kNan, kInfinity, 1, 2,
                                     -kInfinity, 1,          2,    1,         2, 3};
  const Shape shape{4, 3};
  const std::vector<float> d_weights = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<uint8_t> is_padding = {0, 0, 0, 1};
  for (const std::string implementation : {"auto", "reference"}) {
    const Context context = MakeContext(1, {{"log", "error"}, {"implementation", implementation}});
    for (const ScoreFunction function :
         {ScoreFunction::kSoftmax, ScoreFunction::kSigmoid, ScoreFunction::kSoftmaxOfChosen}) {
      GatingOptions options{.top_k = 2, .score_function = function};
      options.is_padding = is_padding;
      const ConstTensorView view(logits.data(), shape);
      const GatingResult result = Gate(context, view, options);
      std::vector<float> d_logits(12, kNan);
      GateBackward(context, view, result, ConstTensorView(d_weights.data(), Shape{4, 2}), options,
                   TensorView(d_logits.data(), shape));
      const bool is_sigmoid = function == ScoreFunction::kSigmoid;
      for (const size_t i : {0, 1, 2, 3, 4, 6, 9, 10, 11}) EXPECT_EQ(d_logits[i], 0) << i;
      EXPECT_EQ(d_logits[5] != 0, is_sigmoid);  // beside +inf, whose own slope is 0
      EXPECT_NE(d_logits[7], 0);
      EXPECT_NE(d_logits[8], 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, GateBackwardTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(GateBackwardErrorsTest, RefusesWhatDoesNotFit) {
  const Context context = MakeContext(1);
  std::vector<float> logits(12);
  std::vector<float> d_weights(6);
  GatingResult result;
  result.expert_ids = {0, 1, 0, 1, 0, 1};
  GatingOptions options{.top_k = 2};
  Shape slots{3, 2};
  Shape out_shape{3, 4};
  std::vector<float> out(12, 5.0f);
  const auto reject = [&] {
    return Rejection([&] {
      GateBackward(context, ConstTensorView(logits.data(), Shape{3, 4}), result,
                   ConstTensorView(d_weights.data(), slots), options,
                   TensorView(out.data(), out_shape));
    });
  };
  slots = Shape{2, 3};
  EXPECT_EQ(reject(), "[gating_backward] d_weights must be [T,k] f32; got [2,3] f32 for [3,2]");
  slots = Shape{3, 2};
  out_shape = Shape{4, 3};
  EXPECT_EQ(reject(),
            "[gating_backward] d_logits must be [T,E] f32; got [4,3] f32 for logits [3,4] f32");
  out_shape = Shape{3, 4};
  result.expert_ids[3] = 4;
  EXPECT_EQ(reject(),
            "[gating_backward] expert ids must be -1 or 0..3; got invalid expert index 4 at [1,1]");
  result.expert_ids.pop_back();
  EXPECT_EQ(reject(), "[gating_backward] the result must hold [T,k] expert ids; got 5 for [3,2]");
  options.score_function = ScoreFunction::kSparsemixer;
  EXPECT_EQ(reject(),
            "[gating_backward] the score function must not be sparsemixer, which is trained by an "
            "estimator of its own; got kSparsemixer");
  options.top_k = 5;
  EXPECT_EQ(reject(),
            "[gating] top_k must be between 1 and the number of experts; got top_k 5 of 4 experts");
  EXPECT_EQ(out, std::vector<float>(12, 5.0f));
}

}  // namespace
}  // namespace opst
