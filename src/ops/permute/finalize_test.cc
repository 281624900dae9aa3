// Tests of the weighted sum of expert outputs per token: order, precision, residual, missing rows.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
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
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

WorstElement CompareFinalized(const Matrix& expert_out, const RoutingPlan& plan,
                              const Matrix* residual, const Matrix& out) {
  WorstElement worst;
  for (int64_t token = 0; token < plan.num_tokens; ++token) {
    for (int64_t h = 0; h < out.columns(); ++h) {
      double sum = residual != nullptr ? residual->At(token, h) : 0;
      double magnitude = std::abs(sum);
      for (int64_t j = 0; j < plan.top_k; ++j) {
        const auto slot = static_cast<size_t>(token * plan.top_k + j);
        if (plan.slot_to_row[slot] < 0) continue;
        const double product = plan.expert_weights[slot] * expert_out.At(plan.slot_to_row[slot], h);
        sum += product;
        magnitude += std::abs(product);
      }
      worst.Add(token, h, out.At(token, h), sum,
                ChainError(plan.top_k + 1, magnitude) + 1.01 * RoundingError(out.dtype(), sum));
    }
  }
  return worst;
}

class FinalizeTest : public EachIsaTest {
 protected:
  const Context context_ = MakeContext(2);
};

TEST_P(FinalizeTest, SumsEqualFp64ForAllTypesAndPlans) {
  for (const DType from : kDtypes) {
    for (const DType to : kDtypes) {
      for (const int64_t hidden : {1, 7, 33, 257}) {
        const int64_t tokens = 37;
        const Slots slots = RandomSlots(tokens, 9, 4, 3, {.empty_share = 0.1, .skew = 1});
        for (const RoutingPlanOptions options :
             {RoutingPlanOptions{}, RoutingPlanOptions{.capacity_factor = 0.6},
              RoutingPlanOptions{.capacity_factor = 1.25, .pads_to_capacity = true}}) {
          const RoutingPlan plan = MakePlan(context_, slots, 9, options);
          const Matrix expert_out = Matrix::Random(from, plan.num_rows(), hidden, 4, 1, 2);
          const Matrix residual = Matrix::Random(to, tokens, hidden, 5, 1, 1);
          Matrix out(to, tokens, hidden, 3);
          FinalizeRouting(context_, expert_out.view(), plan, {}, out.view());
          const WorstElement bare = CompareFinalized(expert_out, plan, nullptr, out);
          EXPECT_TRUE(bare.is_within_tolerance()) << bare;
          FinalizeRouting(context_, expert_out.view(), plan, {.residual = residual.view()},
                          out.view());
          const WorstElement added = CompareFinalized(expert_out, plan, &residual, out);
          EXPECT_TRUE(added.is_within_tolerance()) << added;
          EXPECT_TRUE(out.HasUntouchedGaps());
        }
      }
    }
  }
}

TEST_P(FinalizeTest, TheOutputMayBeTheResidual) {
  const RoutingPlan plan = MakePlan(context_, RandomSlots(20, 5, 2, 1), 5);
  const Matrix expert_out = Matrix::Random(DType::kBf16, plan.num_rows(), 19, 2);
  const Matrix residual = Matrix::Random(DType::kBf16, 20, 19, 3);
  Matrix apart(DType::kBf16, 20, 19);
  FinalizeRouting(context_, expert_out.view(), plan, {.residual = residual.view()}, apart.view());
  Matrix in_place = residual;
  FinalizeRouting(context_, expert_out.view(), plan, {.residual = in_place.view()},
                  in_place.view());
  EXPECT_TRUE(in_place.HasSameBits(apart));
}

// A bf16 running sum of 1 + 2^-9 - 1 would be 0.
TEST_P(FinalizeTest, SumsAreKeptInF32) {
  const RoutingPlan plan = MakePlan(context_, Slots{1, 3, {0, 1, 2}, {1, 1, 1}}, 3);
  Matrix expert_out(DType::kBf16, 3, 1);
  expert_out.Set(0, 0, 1);
  expert_out.Set(1, 0, 0x1p-9);
  expert_out.Set(2, 0, -1);
  Matrix out(DType::kBf16, 1, 1);
  FinalizeRouting(context_, expert_out.view(), plan, {}, out.view());
  EXPECT_EQ(out.At(0, 0), 0x1p-9);
}

TEST_P(FinalizeTest, LargeWeightedSumsFitBf16) {
  const RoutingPlan plan = MakePlan(context_, Slots{1, 1, {0}, {16}}, 1);
  Matrix expert_out(DType::kBf16, 1, 1);
  expert_out.Set(0, 0, 5000);  // 4992 in bf16
  Matrix out(DType::kBf16, 1, 1);
  FinalizeRouting(context_, expert_out.view(), plan, {}, out.view());
  EXPECT_EQ(out.At(0, 0), 79872);
}

// The same bits whatever the order of the choices: 2^24 + 1 + 1 depends on who comes first.
TEST_P(FinalizeTest, ExpertsAreAddedInAscendingId) {
  Matrix wanted(DType::kF32, 1, 1);
  for (const auto& order :
       std::vector<std::vector<int32_t>>{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}}) {
    const RoutingPlan plan = MakePlan(context_, Slots{1, 3, order, {1, 1, 1}}, 3);
    Matrix expert_out(DType::kF32, 3, 1);
    expert_out.Set(0, 0, 0x1p24);
    expert_out.Set(1, 0, 1);
    expert_out.Set(2, 0, 1);
    Matrix out(DType::kF32, 1, 1);
    FinalizeRouting(context_, expert_out.view(), plan, {}, out.view());
    EXPECT_EQ(out.At(0, 0), 0x1p24);  // 1 + 1 first would give 2^24 + 2
  }
}

TEST_P(FinalizeTest, OneExpertPerTokenKeepsItsOwnWeight) {
  const std::vector<float> weights = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f};
  const RoutingPlan plan = MakePlan(context_, Slots{5, 1, {2, 0, 1, 0, 2}, weights}, 3);
  const Matrix x = Matrix::Random(DType::kF32, 5, 6, 1);
  Matrix rows(DType::kF32, 5, 6);
  Permute(context_, x.view(), plan, rows.view());
  Matrix out(DType::kF32, 5, 6);
  FinalizeRouting(context_, rows.view(), plan, {}, out.view());
  for (int64_t token = 0; token < 5; ++token) {
    for (int64_t h = 0; h < 6; ++h) {
      EXPECT_FLOAT_EQ(static_cast<float>(out.At(token, h)),
                      weights[static_cast<size_t>(token)] * static_cast<float>(x.At(token, h)));
    }
  }
}

TEST_P(FinalizeTest, TokensWithoutRowsAreZeroOrTheResidual) {
  const RoutingPlan plan = MakePlan(context_, Slots{3, 1, {-1, 0, -1}, {1, 1, 1}}, 2);
  Matrix expert_out(DType::kF32, 1, 4);
  expert_out.Fill(2);
  Matrix out(DType::kF32, 3, 4);
  FinalizeRouting(context_, expert_out.view(), plan, {}, out.view());
  EXPECT_EQ(out.Row(0), std::vector<double>(4, 0.0));
  EXPECT_EQ(out.Row(1), std::vector<double>(4, 2.0));
  EXPECT_EQ(out.Row(2), std::vector<double>(4, 0.0));
  Matrix residual(DType::kF32, 3, 4);
  residual.Fill(0.5);
  FinalizeRouting(context_, expert_out.view(), plan, {.residual = residual.view()}, out.view());
  EXPECT_EQ(out.Row(0), std::vector<double>(4, 0.5));
}

TEST_P(FinalizeTest, PaddingRowsAreNeverRead) {
  const Slots slots{4, 1, {0, 0, 1, 0}, {1, 1, 1, 1}};
  const RoutingPlan plan =
      MakePlan(context_, slots, 3, {.capacity_factor = 3, .pads_to_capacity = true});
  Matrix expert_out(DType::kF32, plan.num_rows(), 3);
  expert_out.Fill(kNan);
  for (const int32_t row : plan.slot_to_row) {
    for (int64_t h = 0; h < 3; ++h) expert_out.Set(row, h, 1);
  }
  Matrix out(DType::kF32, 4, 3);
  FinalizeRouting(context_, expert_out.view(), plan, {}, out.view());
  for (int64_t token = 0; token < 4; ++token) EXPECT_EQ(out.Row(token), std::vector<double>(3, 1));
}

TEST_P(FinalizeTest, SameBitsForAnyNumberOfThreads) {
  const RoutingPlan plan = MakePlan(context_, RandomSlots(100, 8, 4, 1), 8);
  const Matrix expert_out = Matrix::Random(DType::kBf16, plan.num_rows(), 37, 2);
  Matrix wanted(DType::kBf16, 100, 37);
  FinalizeRouting(MakeContext(1), expert_out.view(), plan, {}, wanted.view());
  for (const int threads : {2, 3, 7}) {
    const Context context = MakeContext(threads);
    Matrix out(DType::kBf16, 100, 37);
    FinalizeRouting(context, expert_out.view(), plan, {}, out.view());
    EXPECT_TRUE(out.HasSameBits(wanted)) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, FinalizeTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(FinalizeErrorsTest, WrongShapesAreNamed) {
  const Context context = MakeContext(1);
  const RoutingPlan plan = MakePlan(context, RandomSlots(4, 3, 2, 1), 3);
  const Matrix rows(DType::kF32, 8, 5);
  Matrix out(DType::kF32, 4, 5);
  const auto reject = [&](ConstTensorView input, ConstTensorView residual, TensorView output) {
    return Rejection(
        [&] { FinalizeRouting(context, input, plan, {.residual = residual}, output); });
  };
  EXPECT_EQ(reject(Matrix(DType::kF32, 7, 5).view(), {}, out.view()),
            "[finalize_routing] expert_out must be [R,H] f32, bf16 or f16 of the plan's rows; got "
            "[7,5] f32 for 8 rows");
  EXPECT_EQ(reject(Matrix(DType::kF32, 8, 0).view(), {}, Matrix(DType::kF32, 4, 0).view()),
            "[finalize_routing] expert_out dim 1 (H) must be positive; got [8,0] f32");
  EXPECT_EQ(
      reject(rows.view(), {}, Matrix(DType::kF32, 4, 6).view()),
      "[finalize_routing] output must be [T,H] f32, bf16 or f16; got [4,6] f32 for 4 tokens of "
      "[8,5] f32");
  EXPECT_EQ(
      reject(rows.view(), Matrix(DType::kF32, 3, 5).view(), out.view()),
      "[finalize_routing] residuals must be [T,H] f32, bf16 or f16, or absent; got [3,5] f32");
}

}  // namespace
}  // namespace opst
