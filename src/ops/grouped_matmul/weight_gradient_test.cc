// Tests of the gradient of grouped weights against fp64, in one call and in several.
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
#include "ops/testing/worst_element.h"
#include "opst/ops/grouped_matmul.h"

namespace opst {
namespace {

// [G,N,K] f32 that owns its memory.
struct Gradient {
  Gradient(int64_t groups, int64_t n, int64_t k, float fill = 77)
      : shape{groups, n, k}, values(static_cast<size_t>(shape.num_elements()), fill) {}
  TensorView view() { return {values.data(), shape}; }
  Shape shape;
  std::vector<float> values;
};

class WeightGradientTest : public EachIsaTest {
 protected:
  void Check(const std::vector<int64_t>& offsets, int64_t n, int64_t k, DType dtype,
             OutputMode mode, uint32_t seed);

  const Context context_ = MakeContext(2);
};

void WeightGradientTest::Check(const std::vector<int64_t>& offsets, int64_t n, int64_t k,
                               DType dtype, OutputMode mode, uint32_t seed) {
  const auto groups = static_cast<int64_t>(offsets.size()) - 1;
  const Matrix x = Matrix::Random(dtype, offsets.back(), k, seed, 1, 1);
  const Matrix d_out = Matrix::Random(dtype, offsets.back(), n, seed + 1, 1, 2);
  Gradient out(groups, n, k, 3);
  GroupedMatmulWeightGradient(context_, x.view(), d_out.view(), offsets, mode, out.view());
  WorstElement worst;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t begin = offsets[static_cast<size_t>(group)];
    const int64_t end = offsets[static_cast<size_t>(group) + 1];
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < k; ++j) {
        double sum = mode == OutputMode::kAdd ? 3 : 0;
        double magnitude = sum;
        for (int64_t row = begin; row < end; ++row) {
          sum += d_out.At(row, i) * x.At(row, j);
          magnitude += std::abs(d_out.At(row, i) * x.At(row, j));
        }
        worst.Add(group * n + i, j, out.values[static_cast<size_t>((group * n + i) * k + j)], sum,
                  ChainError(end - begin, magnitude));
      }
    }
  }
  ASSERT_TRUE(worst.is_within_tolerance()) << worst << "; N " << n << ", K " << k;
}

TEST_P(WeightGradientTest, AThousandRandomCasesEqualFp64) {
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const DType dtypes[] = {DType::kF32, DType::kBf16, DType::kF16};
    std::vector<int64_t> offsets = {0};
    const auto groups = static_cast<uint32_t>(random() % 5);
    for (uint32_t group = 0; group < groups; ++group) {
      offsets.push_back(offsets.back() + (random() % 3 == 0 ? 0 : random() % 30));
    }
    Check(offsets, 1 + random() % 35, 1 + random() % 35, dtypes[random() % 3],
          random() % 2 == 0 ? OutputMode::kAdd : OutputMode::kOverwrite, seed);
  }
}

// More rows than a block of inputs, more columns and rows of the gradient than a task.
TEST_P(WeightGradientTest, SeveralBlocksOfEverything) {
  Check({0, 300, 300, 555}, 70, 33, DType::kF32, OutputMode::kOverwrite, 1);
  Check({0, 257}, 65, 530, DType::kBf16, OutputMode::kAdd, 2);
}

// Handing over rows in pieces continues the chain of additions.
TEST_P(WeightGradientTest, PiecesAndThreadsGiveTheSameBits) {
  const Matrix x = Matrix::Random(DType::kF32, 400, 19, 1);
  const Matrix d_out = Matrix::Random(DType::kF32, 400, 23, 2);
  const auto rows = [](const Matrix& matrix, int64_t begin, int64_t count) {
    return ConstTensorView(matrix.view().row(begin), DType::kF32, Shape{count, matrix.columns()});
  };
  Gradient wanted(1, 23, 19);
  GroupedMatmulWeightGradient(MakeContext(1), x.view(), d_out.view(), std::vector<int64_t>{0, 400},
                              OutputMode::kOverwrite, wanted.view());
  for (const int64_t cut : {1, 13, 256, 399}) {
    Gradient got(1, 23, 19);
    GroupedMatmulWeightGradient(context_, rows(x, 0, cut), rows(d_out, 0, cut),
                                std::vector<int64_t>{0, cut}, OutputMode::kOverwrite, got.view());
    GroupedMatmulWeightGradient(context_, rows(x, cut, 400 - cut), rows(d_out, cut, 400 - cut),
                                std::vector<int64_t>{0, 400 - cut}, OutputMode::kAdd, got.view());
    EXPECT_EQ(got.values, wanted.values) << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, WeightGradientTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(WeightGradientErrorsTest, WrongArgumentsAreNamed) {
  const Context context = MakeContext(1);
  const Matrix x = Matrix::Random(DType::kF32, 5, 4, 1);
  const Matrix d_out = Matrix::Random(DType::kF32, 5, 3, 1);
  const auto reject = [&](ConstTensorView gradient, std::vector<int64_t> offsets, Shape shape) {
    std::vector<float> memory(static_cast<size_t>(shape.num_elements()));
    return Rejection([&] {
      GroupedMatmulWeightGradient(context, x.view(), gradient, offsets, OutputMode::kOverwrite,
                                  {memory.data(), shape});
    });
  };
  EXPECT_EQ(reject(Matrix(DType::kF32, 4, 3).view(), {0, 5}, {1, 3, 4}),
            "[grouped_matmul_weight_gradient] d_out must be [R,N] f32, bf16 or f16 of the input's "
            "rows; got [4,3] f32 for [5,4] f32");
  EXPECT_EQ(reject(d_out.view(), {0, 5}, {1, 4, 3}),
            "[grouped_matmul_weight_gradient] d_weights must be contiguous [G,N,K] f32 of d_out "
            "and input; got [1,4,3] f32 for d_out [5,3] f32, input [5,4] f32");
  EXPECT_EQ(reject(d_out.view(), {0, 3, 2}, {2, 3, 4}),
            "[grouped_matmul_weight_gradient] group_offsets must begin with 0 and end with the "
            "number of rows; got 0 and 2 for 5 rows");
}

}  // namespace
}  // namespace opst
