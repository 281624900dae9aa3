// Tests of what the grouped matrix product refuses, and of the texts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/pack.h"

namespace opst {
namespace {

class GroupedMatmulErrorsTest : public testing::Test {
 protected:
  std::string Reject(ConstTensorView x, const std::vector<int64_t>& offsets,
                     const PackedWeights& weights, TensorView out) {
    return Rejection([&] { GroupedMatmul(context_, x, offsets, weights, out); });
  }
  PackedWeights Weights(int64_t n, int64_t k, PanelOrder order = PanelOrder::kPlain) {
    return PackExperts(context_, Matrix::Random(DType::kBf16, 2 * n, k, 1).Stacked(2),
                       WeightFormat::kBf16, order);
  }

  const Context context_ = MakeContext(1);
  const std::vector<int64_t> offsets_ = {0, 2, 5};
  Matrix x_ = Matrix::Random(DType::kF32, 5, 6, 1);
  Matrix out_{DType::kF32, 5, 4};
};

TEST_F(GroupedMatmulErrorsTest, WeightsOfAnotherWidthOrOrder) {
  EXPECT_EQ(Reject(x_.view(), offsets_, Weights(4, 7), out_.view()),
            "[grouped_matmul] weights dim 2 must equal input dim 1 (K); got weights 2 x [4,7] bf16 "
            "panels, input [5,6] f32");
  EXPECT_EQ(Reject(x_.view(), offsets_, Weights(4, 6, PanelOrder::kGateUp), out_.view()),
            "[grouped_matmul] weights must be in plain panels; got 2 x [4,6] bf16 gate_up panels");
}

TEST_F(GroupedMatmulErrorsTest, OutputOfAnotherShape) {
  const std::string rule =
      "[grouped_matmul] output must be [R,N] of input and weights; got output ";
  const std::string facts = ", input [5,6] f32, weights 2 x [4,6] bf16 panels";
  EXPECT_EQ(Reject(x_.view(), offsets_, Weights(4, 6), Matrix(DType::kF32, 5, 3).view()),
            rule + "[5,3] f32" + facts);
  EXPECT_EQ(Reject(x_.view(), offsets_, Weights(4, 6), Matrix(DType::kF32, 4, 4).view()),
            rule + "[4,4] f32" + facts);
}

TEST_F(GroupedMatmulErrorsTest, TypesAndRanks) {
  const std::vector<int64_t> integers(30);
  EXPECT_EQ(
      Reject(ConstTensorView(integers.data(), Shape{5, 6}), offsets_, Weights(4, 6), out_.view()),
      "[grouped_matmul] input must be [R,K] f32, bf16 or f16; got [5,6] i64");
  EXPECT_EQ(Reject(ConstTensorView(x_.view().data(), DType::kF32, Shape{30}), offsets_,
                   Weights(4, 6), out_.view()),
            "[grouped_matmul] input must be [R,K] f32, bf16 or f16; got [30] f32");
  EXPECT_EQ(Reject(x_.view(), offsets_, Weights(4, 6),
                   TensorView(out_.view().mutable_data(), DType::kI32, Shape{5, 4})),
            "[grouped_matmul] output must be [R,N] f32, bf16 or f16; got [5,4] i32");
}

TEST_F(GroupedMatmulErrorsTest, OffsetsThatDoNotDescribeTheRows) {
  const PackedWeights weights = Weights(4, 6);
  EXPECT_EQ(Reject(x_.view(), {0, 5}, weights, out_.view()),
            "[grouped_matmul] group_offsets must have one value more than there are groups; got 2 "
            "for 2 groups");
  EXPECT_EQ(Reject(x_.view(), {}, weights, out_.view()),
            "[grouped_matmul] group_offsets must have one value more than there are groups; got 0 "
            "for 2 groups");
  EXPECT_EQ(
      Reject(x_.view(), {1, 2, 5}, weights, out_.view()),
      "[grouped_matmul] group_offsets must begin with 0 and end with the number of rows; got 1 "
      "and 5 for 5 rows");
  EXPECT_EQ(
      Reject(x_.view(), {0, 2, 6}, weights, out_.view()),
      "[grouped_matmul] group_offsets must begin with 0 and end with the number of rows; got 0 "
      "and 6 for 5 rows");
  EXPECT_EQ(Reject(x_.view(), {0, 7, 5}, weights, out_.view()),
            "[grouped_matmul] group_offsets must ascend; got 7 before 5 at [2]");
  EXPECT_EQ(Reject(x_.view(), {0, -1, 5}, weights, out_.view()),
            "[grouped_matmul] group_offsets must ascend; got 0 before -1 at [1]");
}

TEST_F(GroupedMatmulErrorsTest, NothingIsWrittenBeforeAnError) {
  Reject(x_.view(), {0, 7, 5}, Weights(4, 6), out_.view());
  EXPECT_TRUE(out_.IsUnwritten(0));
}

TEST_F(GroupedMatmulErrorsTest, MatmulOfAVectorIsRefusedInTheSameWords) {
  const ConstTensorView vector(x_.view().data(), DType::kF32, Shape{6});
  EXPECT_EQ(Rejection([&] { Matmul(context_, vector, Weights(4, 6), out_.view()); }),
            "[grouped_matmul] input must be [R,K] f32, bf16 or f16; got [6] f32");
}

TEST(GroupedMatmulDispatchTest, TheLogTellsWhichImplementationRan) {
  std::vector<std::string> lines;
  ContextOptions options;
  options.num_threads = 1;
  options.settings = {{"log", "dispatch"}, {"implementation", "reference"}};
  options.log_sink = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  const Context context(options);
  const Matrix weights = Matrix::Random(DType::kF32, 4, 6, 1);
  Matrix out(DType::kF32, 5, 4);
  Matmul(context, Matrix::Random(DType::kF32, 5, 6, 2).view(),
         PackExperts(context, weights.Stacked(1), WeightFormat::kF32, PanelOrder::kPlain),
         out.view());
  EXPECT_EQ(lines, std::vector<std::string>{"dispatch: grouped_matmul: reference; tiled declined: "
                                            "OPST_IMPLEMENTATION=reference"});
}

}  // namespace
}  // namespace opst
