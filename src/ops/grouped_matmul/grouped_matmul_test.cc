// Tests of the grouped matrix product against fp64: all remainders, types, strides and groupings.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/grouped_matmul.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "kernels/testing/each_isa.h"
#include "ops/grouped_matmul/expert_tasks.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matmul_oracle.h"
#include "ops/testing/matrix.h"
#include "opst/ops/gating.h"
#include "opst/pack.h"

namespace opst {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};

std::vector<int64_t> OffsetsOf(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> offsets(sizes.size() + 1);
  std::partial_sum(sizes.begin(), sizes.end(), offsets.begin() + 1);
  return offsets;
}

PackedWeights Pack(const Context& context, const Matrix& weights, int64_t num_groups) {
  return PackExperts(context, weights.Stacked(num_groups), FormatOf(weights.dtype()),
                     PanelOrder::kPlain);
}

class GroupedMatmulTest : public EachIsaTest {
 protected:
  // Random groups of the given sizes, compared with fp64.
  void ExpectCorrect(const std::vector<int64_t>& sizes, int64_t n, int64_t k, DType dtype) {
    const std::vector<int64_t> offsets = OffsetsOf(sizes);
    const auto num_groups = static_cast<int64_t>(sizes.size());
    const Matrix x = Matrix::Random(dtype, offsets.back(), k, 1);
    const Matrix weights = Matrix::Random(dtype, num_groups * n, k, 2);
    Matrix out(DType::kF32, offsets.back(), n);
    GroupedMatmul(context_, x.view(), offsets, Pack(context_, weights, num_groups), out.view());
    const WorstElement worst = CompareMatmul(x, offsets, weights, out);
    EXPECT_TRUE(worst.is_within_tolerance())
        << worst << "; E " << num_groups << ", N " << n << ", K " << k << ", " << Name(dtype);
  }

  const Context context_ = MakeContext(1);
};

// All M from 0 to 70: the largest against fp64, the others bit for bit against the largest.
TEST_P(GroupedMatmulTest, EveryNumberOfRows) {
  constexpr int64_t kMost = 70;
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {1, 1}, {17, 33}, {35, 257}, {258, 100}, {64, 512}};
  for (const DType dtype : kDtypes) {
    for (const auto& [n, k] : shapes) {
      Matrix x = Matrix::Random(dtype, kMost, k, 3);
      const Matrix weights = Matrix::Random(dtype, n, k, 4);
      const PackedWeights packed = Pack(context_, weights, 1);
      Matrix most(dtype, kMost, n);
      Matmul(context_, x.view(), packed, most.view());
      const std::vector<int64_t> offsets = {0, kMost};
      const WorstElement worst = CompareMatmul(x, offsets, weights, most);
      ASSERT_TRUE(worst.is_within_tolerance()) << worst << "; N " << n << ", K " << k;
      for (int64_t rows = 0; rows < kMost; ++rows) {
        Matrix out(dtype, kMost, n, 2);
        Matmul(context_, x.FirstRows(rows), packed, out.FirstRows(rows));
        for (int64_t row = 0; row < rows; ++row) {
          ASSERT_TRUE(out.HasSameBits(row, most, row)) << "row " << row << " of " << rows << ", N "
                                                       << n << ", K " << k << ", " << Name(dtype);
        }
        EXPECT_TRUE(out.IsUnwritten(rows) && out.HasUntouchedGaps());
      }
    }
  }
}

TEST_P(GroupedMatmulTest, EveryRemainderOfColumnsAndInputs) {
  std::vector<int64_t> sizes(35);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.insert(sizes.end(), {255, 256, 257, 258, 513});
  for (const DType dtype : kDtypes) {
    for (const int64_t size : sizes) {
      for (const int64_t other : {1, 3, 40}) {
        for (const int64_t rows : {1, 30}) {
          ExpectCorrect({rows}, size, other, dtype);
          ExpectCorrect({rows}, other + 1, size, dtype);
        }
      }
      if (HasFailure()) return;
    }
  }
}

TEST_P(GroupedMatmulTest, EveryCombinationOfTypesInStridedRows) {
  for (const DType from : kDtypes) {
    for (const DType weight : kDtypes) {
      for (const DType to : kDtypes) {
        const std::vector<int64_t> offsets = OffsetsOf({3, 0, 20});
        const Matrix x = Matrix::Random(from, 23, 61, 5, 1, 7);
        const Matrix weights = Matrix::Random(weight, 3 * 37, 61, 6);
        Matrix out(to, 23, 37, 5);
        GroupedMatmul(context_, x.view(), offsets, Pack(context_, weights, 3), out.view());
        const WorstElement worst = CompareMatmul(x, offsets, weights, out);
        EXPECT_TRUE(worst.is_within_tolerance())
            << worst << "; " << Name(from) << " x " << Name(weight) << " = " << Name(to);
        EXPECT_TRUE(out.HasUntouchedGaps());
      }
    }
  }
}

// Weights rounded while packing: the product is that of the rounded weights.
TEST_P(GroupedMatmulTest, WeightsMayBePackedIntoAnotherType) {
  const Matrix weights = Matrix::Random(DType::kF32, 40, 50, 6);
  Matrix rounded(DType::kBf16, 40, 50);
  for (int64_t row = 0; row < 40; ++row) {
    for (int64_t k = 0; k < 50; ++k) rounded.Set(row, k, weights.At(row, k));
  }
  const Matrix x = Matrix::Random(DType::kF32, 9, 50, 7);
  Matrix out(DType::kF32, 9, 40);
  Matmul(context_, x.view(),
         PackExperts(context_, weights.Stacked(1), WeightFormat::kBf16, PanelOrder::kPlain),
         out.view());
  const std::vector<int64_t> offsets = {0, 9};
  const WorstElement worst = CompareMatmul(x, offsets, rounded, out);
  EXPECT_TRUE(worst.is_within_tolerance()) << worst;
}

TEST_P(GroupedMatmulTest, GroupsOfAllSizes) {
  constexpr auto kRows = static_cast<int64_t>(kRowsPerTask);
  for (const DType dtype : kDtypes) {
    ExpectCorrect({0, 5, 0, 0, 1, 13, 0}, 33, 65, dtype);
    ExpectCorrect({0, 0, kRows + 83, 0}, 20, 35, dtype);  // one group takes all, in two tasks
    ExpectCorrect({kRows - 1, kRows, kRows + 1}, 17, 19, dtype);
    ExpectCorrect({1, 500, 1}, 5, 300, dtype);
    ExpectCorrect({2, 2}, 600, 9, dtype);  // several column tasks
  }
}

TEST_P(GroupedMatmulTest, AThousandGroups) {
  std::mt19937 random(8);
  std::vector<int64_t> sizes(1024);
  for (int64_t& size : sizes) size = random() % 3 == 0 ? static_cast<int64_t>(random() % 4) : 0;
  ExpectCorrect(sizes, 9, 12, DType::kF32);
  ExpectCorrect(sizes, 9, 13, DType::kBf16);
}

TEST_P(GroupedMatmulTest, NothingToMultiplyWritesNothingOrZeros) {
  const Matrix weights = Matrix::Random(DType::kF32, 2 * 4, 5, 1);
  const PackedWeights packed = Pack(context_, weights, 2);
  GroupedMatmul(context_, Matrix(DType::kF32, 0, 5).view(), std::vector<int64_t>{0, 0, 0}, packed,
                Matrix(DType::kF32, 0, 4).view());
  GroupedMatmul(context_, Matrix(DType::kF32, 0, 0).view(), std::vector<int64_t>{0},
                PackedWeights(), Matrix(DType::kF32, 0, 0).view());
  const Matrix no_inputs(DType::kF32, 3, 0);
  Matrix out(DType::kF32, 3, 4);
  Matmul(context_, no_inputs.view(), Pack(context_, Matrix(DType::kF32, 4, 0), 1), out.view());
  for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(out.Row(row), std::vector<double>(4, 0.0));
}

// A router product rounded to bf16 would tie and choose expert 0.
TEST_P(GroupedMatmulTest, RouterProductsKeepTheirF32Digits) {
  Matrix x(DType::kBf16, 1, 2);
  x.Fill(1);
  Matrix gate(DType::kBf16, 3, 2);
  for (int64_t expert = 0; expert < 3; ++expert) {
    gate.Set(expert, 0, 3);
    gate.Set(expert, 1, static_cast<double>(expert) / 1024);
  }
  Matrix logits(DType::kF32, 1, 3);
  Matmul(context_, x.view(), Pack(context_, gate, 1), logits.view());
  EXPECT_EQ(logits.At(0, 2), 3.001953125);
  EXPECT_EQ(Gate(context_, logits.view(), {.top_k = 1}).expert_ids[0], 2);
}

TEST_P(GroupedMatmulTest, TheReferenceIsWithinTheSameTolerance) {
  const Context reference = MakeReferenceContext();
  for (const DType dtype : kDtypes) {
    const std::vector<int64_t> offsets = OffsetsOf({4, 0, 15});
    const Matrix x = Matrix::Random(dtype, 19, 61, 5, 1, 1);
    const Matrix weights = Matrix::Random(dtype, 3 * 21, 61, 6);
    const PackedWeights packed = Pack(context_, weights, 3);
    Matrix slow(dtype, 19, 21, 2);
    GroupedMatmul(reference, x.view(), offsets, packed, slow.view());
    const WorstElement worst = CompareMatmul(x, offsets, weights, slow);
    EXPECT_TRUE(worst.is_within_tolerance()) << worst;
    EXPECT_TRUE(slow.HasUntouchedGaps());
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, GroupedMatmulTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
