// Tests of the gradients of permute and finalize against fp64 sums and finite differences.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/testing/errors.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/plans.h"
#include "ops/testing/worst_element.h"
#include "opst/ops/permute.h"

namespace opst {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};

RoutingPlan RandomPlan(const Context& context, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t experts = 1 + random() % 9;
  const int64_t top_k = 1 + random() % static_cast<uint32_t>(std::min<int64_t>(experts, 4));
  const Slots slots =
      RandomSlots(random() % 40, experts, top_k, seed, {.empty_share = 0.15, .skew = 0.5});
  const RoutingPlanOptions kinds[] = {
      {}, {.capacity_factor = 0.7}, {.capacity_factor = 1.2, .pads_to_capacity = true}};
  return MakePlan(context, slots, experts, kinds[random() % 3]);
}

class FinalizeBackwardTest : public EachIsaTest {
 protected:
  void Check(uint32_t seed);

  const Context context_ = MakeContext(2);
};

// All three gradients of one random case, against sums in fp64.
void FinalizeBackwardTest::Check(uint32_t seed) {
  const RoutingPlan plan = RandomPlan(context_, seed);
  const DType dtype = kDtypes[seed % 3];
  const int64_t hidden = 1 + static_cast<int64_t>(seed * 7 % 90);
  const Matrix d_out = Matrix::Random(dtype, plan.num_tokens, hidden, seed + 1, 1, 1);
  const Matrix expert_out = Matrix::Random(dtype, plan.num_rows(), hidden, seed + 2, 1, 2);
  const Matrix bias = Matrix::Random(dtype, plan.num_experts, hidden, seed + 3);
  const bool has_bias = seed % 2 == 0;
  Matrix d_rows(dtype, plan.num_rows(), hidden, 1);
  Matrix d_weights(DType::kF32, plan.num_tokens, plan.top_k);
  Matrix d_bias(DType::kF32, plan.num_experts, hidden, 2);
  FinalizeRoutingBackward(context_, d_out.view(), expert_out.view(), plan,
                          has_bias ? bias.view() : ConstTensorView(),
                          {d_rows.view(), d_weights.view(), d_bias.view()});
  WorstElement worst;
  Matrix sums(DType::kF32, plan.num_experts, hidden);
  std::vector<double> bias_sums(static_cast<size_t>(plan.num_experts * hidden));
  std::vector<double> bias_sizes(bias_sums.size());
  for (int64_t row = 0; row < plan.num_rows(); ++row) {
    const int32_t slot = plan.row_to_slot[static_cast<size_t>(row)];
    const float weight = slot < 0 ? 0 : plan.expert_weights[static_cast<size_t>(slot)];
    const int32_t expert = slot < 0 ? 0 : plan.expert_ids[static_cast<size_t>(slot)];
    for (int64_t h = 0; h < hidden; ++h) {
      const double wanted = slot < 0 ? 0 : weight * d_out.At(slot / plan.top_k, h);
      worst.Add(row, h, d_rows.At(row, h), wanted,
                ChainError(1, std::abs(wanted)) + 1.01 * RoundingError(dtype, wanted));
      bias_sums[static_cast<size_t>(expert * hidden + h)] += wanted;
      bias_sizes[static_cast<size_t>(expert * hidden + h)] += std::abs(wanted);
    }
  }
  for (int64_t slot = 0; slot < plan.num_tokens * plan.top_k; ++slot) {
    const int32_t row = plan.slot_to_row[static_cast<size_t>(slot)];
    const int64_t token = slot / plan.top_k;
    double sum = 0;
    double magnitude = 0;
    for (int64_t h = 0; h < hidden && row >= 0; ++h) {
      const double added = has_bias ? bias.At(plan.expert_ids[static_cast<size_t>(slot)], h) : 0;
      sum += d_out.At(token, h) * (expert_out.At(row, h) + added);
      magnitude +=
          std::abs(d_out.At(token, h)) * (std::abs(expert_out.At(row, h)) + std::abs(added));
    }
    worst.Add(token, slot % plan.top_k, d_weights.At(token, slot % plan.top_k), sum,
              ChainError(hidden + 1, magnitude));
  }
  for (int64_t expert = 0; expert < plan.num_experts; ++expert) {
    for (int64_t h = 0; h < hidden; ++h) {
      const auto at = static_cast<size_t>(expert * hidden + h);
      worst.Add(expert, h, d_bias.At(expert, h), bias_sums[at],
                ChainError(plan.expert_counts[static_cast<size_t>(expert)] + 1, bias_sizes[at]));
    }
  }
  EXPECT_TRUE(worst.is_within_tolerance()) << worst << " seed " << seed;
  EXPECT_TRUE(d_rows.HasUntouchedGaps() && d_bias.HasUntouchedGaps());
}

TEST_P(FinalizeBackwardTest, GradientsEqualFp64InAThousandRandomCases) {
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) Check(seed);
}

// <d_out, F(rows + ε u) - F(rows - ε u)> / 2ε = <d_rows, u>; F is linear in the rows, the weights
// and the bias, so that the difference quotient has rounding errors only.
TEST_P(FinalizeBackwardTest, GradientsAreThoseOfTheForwardOperator) {
  const RoutingPlan plan = MakePlan(context_, RandomSlots(9, 4, 2, 1, {.empty_share = 0.2}), 4);
  const Matrix rows = Matrix::Random(DType::kF32, plan.num_rows(), 6, 2);
  const Matrix bias = Matrix::Random(DType::kF32, 4, 6, 3);
  const Matrix d_out = Matrix::Random(DType::kF32, 9, 6, 4);
  Matrix d_rows(DType::kF32, plan.num_rows(), 6);
  Matrix d_weights(DType::kF32, 9, 2);
  Matrix d_bias(DType::kF32, 4, 6);
  FinalizeRoutingBackward(context_, d_out.view(), rows.view(), plan, bias.view(),
                          {d_rows.view(), d_weights.view(), d_bias.view()});
  const auto loss = [&](const Matrix& r, const RoutingPlan& p, const Matrix& b) {
    Matrix out(DType::kF32, 9, 6);
    FinalizeRouting(context_, r.view(), p, {.expert_bias = b.view()}, out.view());
    double sum = 0;
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t h = 0; h < 6; ++h) sum += out.At(t, h) * d_out.At(t, h);
    }
    return sum;
  };
  // Forward sums of 2·6 terms of size ~1 in f32, over a step of 1/4, 54 outputs in all.
  constexpr double kTolerance = 54 * 13 * 0x1p-23 * 8;
  constexpr double kStep = 0.25;
  for (int64_t row = 0; row < plan.num_rows(); ++row) {
    Matrix more = rows;
    Matrix less = rows;
    more.Set(row, 1, rows.At(row, 1) + kStep);
    less.Set(row, 1, rows.At(row, 1) - kStep);
    const double slope = (loss(more, plan, bias) - loss(less, plan, bias)) / (2 * kStep);
    EXPECT_NEAR(d_rows.At(row, 1), slope, kTolerance);
  }
  for (size_t slot = 0; slot < plan.expert_weights.size(); ++slot) {
    RoutingPlan more = plan;
    RoutingPlan less = plan;
    more.expert_weights[slot] += static_cast<float>(kStep);
    less.expert_weights[slot] -= static_cast<float>(kStep);
    const double slope = (loss(rows, more, bias) - loss(rows, less, bias)) / (2 * kStep);
    EXPECT_NEAR(d_weights.At(static_cast<int64_t>(slot) / 2, static_cast<int64_t>(slot) % 2), slope,
                kTolerance);
  }
  for (int64_t expert = 0; expert < 4; ++expert) {
    Matrix more = bias;
    Matrix less = bias;
    more.Set(expert, 2, bias.At(expert, 2) + kStep);
    less.Set(expert, 2, bias.At(expert, 2) - kStep);
    const double slope = (loss(rows, plan, more) - loss(rows, plan, less)) / (2 * kStep);
    EXPECT_NEAR(d_bias.At(expert, 2), slope, kTolerance);
  }
}

TEST_P(FinalizeBackwardTest, GradientsThatAreNotWantedNeedNoArguments) {
  const RoutingPlan plan = MakePlan(context_, RandomSlots(5, 3, 2, 1), 3);
  const Matrix d_out = Matrix::Random(DType::kF32, 5, 4, 2);
  Matrix d_rows(DType::kBf16, plan.num_rows(), 4);
  FinalizeRoutingBackward(context_, d_out.view(), {}, plan, {}, {.d_expert_out = d_rows.view()});
  EXPECT_EQ(Rejection([&] {
              Matrix d_weights(DType::kF32, 5, 2);
              FinalizeRoutingBackward(context_, d_out.view(), {}, plan, {},
                                      {.d_weights = d_weights.view()});
            }),
            "[finalize_routing_backward] expert_out must be [R,H] f32, bf16 or f16, or absent "
            "without d_weights; got [] f32 for 10 rows");
}

// Every token's gradient is the sum over its rows; with one expert it is a copy.
TEST_P(FinalizeBackwardTest, PermuteGradientsEqualFp64InAThousandRandomCases) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const RoutingPlan plan = RandomPlan(context_, seed);
    const DType dtype = kDtypes[seed % 3];
    const int64_t hidden = 1 + static_cast<int64_t>(seed * 5 % 80);
    const Matrix d_out = Matrix::Random(dtype, plan.num_rows(), hidden, seed, 1, 1);
    Matrix d_x(dtype, plan.num_tokens, hidden, 2);
    PermuteBackward(context_, d_out.view(), plan, d_x.view());
    WorstElement worst;
    for (int64_t token = 0; token < plan.num_tokens; ++token) {
      for (int64_t h = 0; h < hidden; ++h) {
        double sum = 0;
        double magnitude = 0;
        for (int64_t j = 0; j < plan.top_k; ++j) {
          const int32_t row = plan.slot_to_row[static_cast<size_t>(token * plan.top_k + j)];
          if (row < 0) continue;
          sum += d_out.At(row, h);
          magnitude += std::abs(d_out.At(row, h));
        }
        worst.Add(token, h, d_x.At(token, h), sum,
                  ChainError(plan.top_k, magnitude) + 1.01 * RoundingError(dtype, sum));
      }
    }
    ASSERT_TRUE(worst.is_within_tolerance()) << worst << " seed " << seed;
    ASSERT_TRUE(d_x.HasUntouchedGaps());
  }
}

TEST_P(FinalizeBackwardTest, SameBitsForAnyNumberOfThreads) {
  const RoutingPlan plan = MakePlan(context_, RandomSlots(200, 8, 4, 1), 8);
  const Matrix d_out = Matrix::Random(DType::kBf16, 200, 37, 2);
  const Matrix rows = Matrix::Random(DType::kBf16, plan.num_rows(), 37, 3);
  struct Gradients {
    Matrix rows, weights, bias, x;
  };
  const auto run = [&](int threads) {
    const Context context = MakeContext(threads);
    Gradients all{Matrix(DType::kBf16, plan.num_rows(), 37), Matrix(DType::kF32, 200, 4),
                  Matrix(DType::kF32, 8, 37), Matrix(DType::kF32, 200, 37)};
    FinalizeRoutingBackward(context, d_out.view(), rows.view(), plan, {},
                            {all.rows.view(), all.weights.view(), all.bias.view()});
    PermuteBackward(context, rows.view(), plan, all.x.view());
    return all;
  };
  const Gradients wanted = run(1);
  for (const int threads : {2, 3, 7}) {
    const Gradients got = run(threads);
    EXPECT_TRUE(got.rows.HasSameBits(wanted.rows) && got.weights.HasSameBits(wanted.weights) &&
                got.bias.HasSameBits(wanted.bias) && got.x.HasSameBits(wanted.x))
        << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, FinalizeBackwardTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
