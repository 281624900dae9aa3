// Tests of gathering rows by index and adding them back: bits, order, missing rows, bad indices.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/sparse_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/testing/errors.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/worst_element.h"

namespace opst {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<int32_t> RandomIndices(size_t count, int64_t num_rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int32_t> index(-1, static_cast<int32_t>(num_rows) - 1);
  std::vector<int32_t> indices(count);
  for (int32_t& value : indices) value = index(random);
  return indices;
}

ConstTensorView View(const std::vector<int32_t>& values) {
  return {values.data(), Shape{static_cast<int64_t>(values.size())}};
}
ConstTensorView View(const std::vector<float>& values) {
  return {values.data(), Shape{static_cast<int64_t>(values.size())}};
}

class SparseRowsTest : public EachIsaTest {
 protected:
  const Context context_ = MakeContext(2);
};

TEST_P(SparseRowsTest, GatheredRowsAreCopiesOrZero) {
  for (const DType dtype : kDtypes) {
    for (const int64_t hidden : {1, 7, 64, 257}) {
      Matrix x = Matrix::Random(dtype, 19, hidden, 1, 1, 2);
      x.Set(3, 0, kNan);
      const std::vector<int32_t> indices = RandomIndices(150, 19, 2);
      Matrix out(dtype, 150, hidden, 3);
      SparseGather(context_, x.view(), View(indices), out.view());
      Matrix zero(dtype, 1, hidden);
      zero.Fill(0);
      for (int64_t row = 0; row < 150; ++row) {
        const int32_t source = indices[static_cast<size_t>(row)];
        ASSERT_TRUE(source < 0 ? out.HasSameBits(row, zero, 0) : out.HasSameBits(row, x, source))
            << row;
      }
      EXPECT_TRUE(out.HasUntouchedGaps());
    }
  }
}

TEST_P(SparseRowsTest, GatherMovesOtherTypesToo) {
  const std::vector<int64_t> x = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> indices = {2, -1, 0};
  std::vector<int64_t> out(6, 9);
  SparseGather(context_, {x.data(), Shape{3, 2}}, View(indices), {out.data(), Shape{3, 2}});
  EXPECT_EQ(out, (std::vector<int64_t>{5, 6, 0, 0, 1, 2}));
}

TEST_P(SparseRowsTest, SumsEqualFp64ForAllTypesAndModes) {
  uint32_t seed = 1;
  for (const DType from : kDtypes) {
    for (const DType to : kDtypes) {
      for (const OutputMode mode : {OutputMode::kOverwrite, OutputMode::kAdd}) {
        for (int round = 0; round < 60; ++round, ++seed) {
          std::mt19937 random(seed);
          const int64_t num_rows = random() % 90;
          const int64_t num_targets = 1 + random() % 40;
          const int64_t hidden = 1 + random() % 70;
          const bool has_weights = random() % 2 == 0;
          const Matrix rows = Matrix::Random(from, num_rows, hidden, seed, 1, 1);
          const auto indices = RandomIndices(static_cast<size_t>(num_rows), num_targets, seed + 1);
          std::vector<float> weights(indices.size());
          std::normal_distribution<float> normal;
          for (float& weight : weights) weight = normal(random);
          const Matrix before = Matrix::Random(to, num_targets, hidden, seed + 2, 1, 2);
          Matrix out = before;
          SparseScatterAdd(context_, rows.view(), View(indices),
                           has_weights ? View(weights) : ConstTensorView(), mode, out.view());
          WorstElement worst;
          for (int64_t target = 0; target < num_targets; ++target) {
            for (int64_t h = 0; h < hidden; ++h) {
              double sum = mode == OutputMode::kAdd ? before.At(target, h) : 0;
              double magnitude = std::abs(sum);
              int64_t count = 0;
              for (size_t r = 0; r < indices.size(); ++r) {
                if (indices[r] != target) continue;
                const double product =
                    (has_weights ? weights[r] : 1.0) * rows.At(static_cast<int64_t>(r), h);
                sum += product;
                magnitude += std::abs(product);
                ++count;
              }
              worst.Add(target, h, out.At(target, h), sum,
                        ChainError(count, magnitude) + 1.01 * RoundingError(to, sum));
            }
          }
          ASSERT_TRUE(worst.is_within_tolerance()) << worst << " seed " << seed;
        }
      }
    }
  }
}

// 2^24 + 1 + 1 depends on who comes first.
TEST_P(SparseRowsTest, RowsAreAddedInAscendingOrder) {
  Matrix rows(DType::kF32, 3, 1);
  rows.Set(0, 0, 0x1p24);
  rows.Set(1, 0, 1);
  rows.Set(2, 0, 1);
  Matrix out(DType::kF32, 1, 1);
  SparseScatterAdd(context_, rows.view(), View(std::vector<int32_t>{0, 0, 0}), {},
                   OutputMode::kOverwrite, out.view());
  EXPECT_EQ(out.At(0, 0), 0x1p24);
}

TEST_P(SparseRowsTest, RowsThatGoNowhereAreNotRead) {
  Matrix rows(DType::kF32, 2, 3);
  rows.Fill(kNan);
  Matrix out(DType::kF32, 2, 3);
  out.Fill(5);
  SparseScatterAdd(context_, rows.view(), View(std::vector<int32_t>{-1, -1}), {}, OutputMode::kAdd,
                   out.view());
  EXPECT_EQ(out.Row(1), std::vector<double>(3, 5));
  SparseScatterAdd(context_, rows.view(), View(std::vector<int32_t>{-1, -1}), {},
                   OutputMode::kOverwrite, out.view());
  EXPECT_EQ(out.Row(0), std::vector<double>(3, 0));
}

TEST_P(SparseRowsTest, SameBitsForAnyNumberOfThreads) {
  const Matrix rows = Matrix::Random(DType::kBf16, 500, 37, 1);
  const auto indices = RandomIndices(500, 90, 2);
  Matrix wanted(DType::kF32, 90, 37);
  SparseScatterAdd(MakeContext(1), rows.view(), View(indices), {}, OutputMode::kOverwrite,
                   wanted.view());
  for (const int threads : {2, 3, 7}) {
    Matrix out(DType::kF32, 90, 37);
    SparseScatterAdd(MakeContext(threads), rows.view(), View(indices), {}, OutputMode::kOverwrite,
                     out.view());
    EXPECT_TRUE(out.HasSameBits(wanted)) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, SparseRowsTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(SparseRowsErrorsTest, WrongArgumentsAreNamedAndNothingIsWritten) {
  const Context context = MakeContext(1);
  const Matrix x = Matrix::Random(DType::kF32, 4, 5, 1);
  Matrix out(DType::kF32, 3, 5);
  const auto gather = [&](ConstTensorView input, const std::vector<int32_t>& indices,
                          TensorView output) {
    return Rejection([&] { SparseGather(context, input, View(indices), output); });
  };
  EXPECT_EQ(gather(x.view(), {0, 1, 4}, out.view()),
            "[sparse_gather] row indices must be -1 or 0..3; got invalid row index 4 at [2]");
  EXPECT_EQ(gather(x.view(), {-2, 1, 1}, out.view()),
            "[sparse_gather] row indices must be -1 or 0..3; got invalid row index -2 at [0]");
  EXPECT_EQ(gather(x.view(), {0, 1}, out.view()),
            "[sparse_gather] output must be [R,H] of the input's dtype; got [3,5] f32 for 2 rows "
            "of [4,5] f32");
  EXPECT_EQ(gather(Matrix(DType::kF32, 4, 0).view(), {0, 1}, out.view()),
            "[sparse_gather] input must be [T,H] with H > 0; got [4,0] f32");
  EXPECT_EQ(Rejection([&] {
              SparseGather(context, x.view(), View(std::vector<float>{0, 1, 2}), out.view());
            }),
            "[sparse_gather] row_indices must be contiguous [R] i32; got [3] f32");
  Matrix own = x;
  EXPECT_EQ(gather(own.view(), {0, 1}, own.FirstRows(2)),
            "[sparse_gather] output must not overlap the input; got [2,5] f32");
  EXPECT_TRUE(out.IsUnwritten(0));
}

TEST(SparseRowsErrorsTest, ScatterChecksRowsWeightsAndTargets) {
  const Context context = MakeContext(1);
  const Matrix rows = Matrix::Random(DType::kF32, 3, 5, 1);
  Matrix out(DType::kF32, 2, 5);
  const auto scatter = [&](ConstTensorView input, const std::vector<int32_t>& indices,
                           const std::vector<float>& weights, TensorView output) {
    return Rejection([&] {
      SparseScatterAdd(context, input, View(indices), View(weights), OutputMode::kAdd, output);
    });
  };
  EXPECT_EQ(scatter(rows.view(), {0, 1, 2}, {1, 1, 1}, out.view()),
            "[sparse_scatter_add] row indices must be -1 or 0..1; got invalid row index 2 at [2]");
  EXPECT_EQ(scatter(rows.view(), {0, 1}, {1, 1}, out.view()),
            "[sparse_scatter_add] row_indices must name a place for every row; got [2] i32 for "
            "[3,5] f32");
  EXPECT_EQ(scatter(rows.view(), {0, 1, 1}, {1, 1}, out.view()),
            "[sparse_scatter_add] weights must be contiguous [R] f32, or absent; got [2] f32");
  EXPECT_EQ(scatter(rows.view(), {0, 1, 1}, {1, 1, 1}, Matrix(DType::kF32, 2, 4).view()),
            "[sparse_scatter_add] output must be [T,H] f32, bf16 or f16 with the rows' H > 0; got "
            "[2,4] f32 for [3,5] f32");
  const std::vector<int32_t> integers(15);
  EXPECT_EQ(scatter({integers.data(), Shape{3, 5}}, {0, 1, 1}, {1, 1, 1}, out.view()),
            "[sparse_scatter_add] rows must be [R,H] f32, bf16 or f16; got [3,5] i32");
  Matrix own = rows;
  EXPECT_EQ(scatter(own.view(), {0, 1, 1}, {1, 1, 1}, own.view()),
            "[sparse_scatter_add] output must not overlap the rows; got [3,5] f32");
  EXPECT_TRUE(out.IsUnwritten(0));
}

}  // namespace
}  // namespace opst
