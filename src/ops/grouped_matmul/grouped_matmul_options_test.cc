// Tests of bias, accumulation and sparse lists of groups in the grouped product.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/testing/errors.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matmul_oracle.h"
#include "ops/testing/matrix.h"
#include "ops/testing/moe_oracle.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/pack.h"

namespace opst {
namespace {

class GroupedMatmulOptionsTest : public EachIsaTest {
 protected:
  void Check(const Context& context, uint32_t seed);
};

// One random case: any dtypes, groups among the matrices in any order, with and without bias and
// activation, both output modes.
void GroupedMatmulOptionsTest::Check(const Context& context, uint32_t seed) {
  std::mt19937 random(seed);
  const DType dtypes[] = {DType::kF32, DType::kBf16, DType::kF16};
  const DType from = dtypes[random() % 3];
  const DType to = dtypes[random() % 3];
  const int64_t experts = 1 + random() % 6;
  const int64_t groups = random() % 5;
  const int64_t n = 1 + random() % 40;
  const int64_t k = random() % 50;
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> ids;
  for (int64_t group = 0; group < groups; ++group) {
    offsets.push_back(offsets.back() + random() % 20);
    ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(experts)));
  }
  // An empty list would mean all matrices in turn.
  if (groups == 0) return;
  const Matrix x = Matrix::Random(from, offsets.back(), k, seed, 1, 1);
  const Matrix weights = Matrix::Random(from, experts * n, k, seed + 1);
  const Matrix bias = Matrix::Random(DType::kF32, experts, n, seed + 2, 1, 2);
  const bool has_bias = random() % 2 == 0;
  const bool adds = random() % 2 == 0;
  const Activation activations[] = {Activation::kSilu, Activation::kRelu, Activation::kGelu};
  const bool activates = random() % 2 == 0;
  const MoeFfnOptions activation{.activation = activations[random() % 3]};
  const Matrix before = Matrix::Random(to, offsets.back(), n, seed + 3, 1, 3);
  Matrix out = before;
  GroupedMatmul(context, x.view(), offsets,
                PackExperts(context, weights.Stacked(experts), FormatOf(from), PanelOrder::kPlain),
                {.bias = has_bias ? bias.view() : ConstTensorView(),
                 .activation = activates ? std::optional(activation.activation) : std::nullopt,
                 .output_mode = adds ? OutputMode::kAdd : OutputMode::kOverwrite,
                 .group_experts = ids},
                out.view());
  WorstElement worst;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t expert = ids[static_cast<size_t>(group)];
    for (int64_t row = offsets[static_cast<size_t>(group)];
         row < offsets[static_cast<size_t>(group) + 1]; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        DotProduct dot = Dot(x.Row(row), weights.Row(expert * n + column));
        if (has_bias) dot.value += bias.At(expert, column);
        if (has_bias) dot.magnitude += std::abs(bias.At(expert, column));
        Bounded sum{dot.value, ChainError(k + 2, dot.magnitude)};
        if (activates) sum = Activated(activation, sum.value, sum.error);
        if (adds) sum.value += before.At(row, column);
        if (adds)
          sum.error += ChainError(1, std::abs(before.At(row, column)) + std::abs(sum.value));
        worst.Add(row, column, out.At(row, column), sum.value,
                  sum.error + 1.01 * RoundingError(to, sum.value));
      }
    }
  }
  ASSERT_TRUE(worst.is_within_tolerance()) << worst << " seed " << seed;
  ASSERT_TRUE(out.HasUntouchedGaps());
}

TEST_P(GroupedMatmulOptionsTest, AThousandRandomCasesEqualFp64) {
  const Context context = MakeContext(2);
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) Check(context, seed);
}

TEST_P(GroupedMatmulOptionsTest, TheReferenceEqualsFp64Too) {
  const Context context = MakeReferenceContext();
  for (uint32_t seed = 0; seed < 200 && !HasFailure(); ++seed) Check(context, seed);
}

TEST_P(GroupedMatmulOptionsTest, GradientOfTheInputIsTheProductWithTransposedPanels) {
  const Context context = MakeContext(2);
  const std::vector<int64_t> offsets = {0, 3, 3, 8};
  const Matrix weights = Matrix::Random(DType::kF32, 3 * 7, 5, 1);  // E x [N 7, K 5]
  const Matrix d_out = Matrix::Random(DType::kF32, 8, 7, 2);
  Matrix d_x(DType::kF32, 8, 5);
  GroupedMatmul(context, d_out.view(), offsets,
                PackExpertsTransposed(context, weights.Stacked(3), WeightFormat::kF32), d_x.view());
  WorstElement worst;
  for (int64_t row = 0; row < 8; ++row) {
    const int64_t expert = row < 3 ? 0 : 2;
    for (int64_t k = 0; k < 5; ++k) {
      DotProduct dot;
      for (int64_t n = 0; n < 7; ++n) {
        const double product = d_out.At(row, n) * weights.At(expert * 7 + n, k);
        dot.value += product;
        dot.magnitude += std::abs(product);
      }
      worst.Add(row, k, d_x.At(row, k), dot.value, ChainError(7, dot.magnitude));
    }
  }
  EXPECT_TRUE(worst.is_within_tolerance()) << worst;
}

INSTANTIATE_TEST_SUITE_P(Isa, GroupedMatmulOptionsTest, testing::ValuesIn(AvailableIsas()),
                         IsaName);

TEST(GroupedMatmulOptionsErrorsTest, WrongOptionsAreNamed) {
  const Context context = MakeContext(1);
  const Matrix weights = Matrix::Random(DType::kF32, 2 * 3, 4, 1);
  const PackedWeights packed =
      PackExperts(context, weights.Stacked(2), WeightFormat::kF32, PanelOrder::kPlain);
  const Matrix x = Matrix::Random(DType::kF32, 5, 4, 1);
  Matrix out(DType::kF32, 5, 3);
  const auto reject = [&](const GroupedMatmulOptions& options, std::vector<int64_t> offsets) {
    return Rejection(
        [&] { GroupedMatmul(context, x.view(), offsets, packed, options, out.view()); });
  };
  const Matrix bias(DType::kF32, 2, 4);
  EXPECT_EQ(reject({.bias = bias.view()}, {0, 2, 5}),
            "[grouped_matmul] bias must be [E,N] f32 apart from the output, or absent; got [2,4] "
            "f32 for weights 2 x [3,4] f32 panels");
  const std::vector<int32_t> ids = {1, 2, 0};
  EXPECT_EQ(reject({.group_experts = ids}, {0, 1, 2, 5}),
            "[grouped_matmul] group_experts must be 0..1; got invalid expert index 2 at [1]");
  const std::vector<int32_t> few = {1};
  EXPECT_EQ(reject({.group_experts = few}, {0, 2, 5}),
            "[grouped_matmul] group_offsets must have one value more than there are groups; got 3 "
            "for 1 groups");
  EXPECT_TRUE(out.IsUnwritten(0));
}

}  // namespace
}  // namespace opst
