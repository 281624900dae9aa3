// Tests of what the fused MoE layer refuses, and of the texts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"
#include "ops/testing/moe_oracle.h"
#include "ops/testing/plans.h"

namespace opst {
namespace {

class MoeFfnErrorsTest : public testing::Test {
 protected:
  std::string Reject(ConstTensorView x, const ExpertWeights& experts, TensorView out) {
    return Rejection([&] { MoeFfn(context_, x, plan_, experts, {}, out); });
  }
  PackedWeights GateUp(int64_t num_experts, int64_t ffn, int64_t hidden) {
    return PackExperts(
        context_,
        Matrix::Random(DType::kBf16, num_experts * 2 * ffn, hidden, 1).Stacked(num_experts),
        WeightFormat::kBf16, PanelOrder::kGateUp);
  }
  PackedWeights Down(int64_t num_experts, int64_t hidden, int64_t ffn) {
    return PackExperts(
        context_, Matrix::Random(DType::kBf16, num_experts * hidden, ffn, 1).Stacked(num_experts),
        WeightFormat::kBf16, PanelOrder::kPlain);
  }

  const Context context_ = MakeContext(1);
  const RoutingPlan plan_ = MakePlan(context_, RandomSlots(4, 3, 2, 1), 3);
  const ExpertWeights experts_ = {GateUp(3, 6, 8), Down(3, 8, 6)};
  Matrix x_ = Matrix::Random(DType::kF32, 4, 8, 1);
  Matrix out_{DType::kF32, 4, 8};
};

TEST_F(MoeFfnErrorsTest, InputOfAnotherRankOrType) {
  const std::vector<int32_t> integers(32);
  EXPECT_EQ(Reject(ConstTensorView(integers.data(), Shape{4, 8}), experts_, out_.view()),
            "[moe_ffn] input must be [T,H] f32, bf16 or f16; got [4,8] i32");
  EXPECT_EQ(
      Reject(ConstTensorView(x_.view().data(), DType::kF32, Shape{32}), experts_, out_.view()),
      "[moe_ffn] input must be [T,H] f32, bf16 or f16; got [32] f32");
}

TEST_F(MoeFfnErrorsTest, AHiddenSizeOfZero) {
  EXPECT_EQ(Reject(Matrix(DType::kF32, 4, 0).view(), {GateUp(3, 6, 0), Down(3, 0, 6)},
                   Matrix(DType::kF32, 4, 0).view()),
            "[moe_ffn] input dim 1 (H) must be positive; got [4,0] f32");
}

TEST_F(MoeFfnErrorsTest, BiasesOfAnotherShape) {
  const std::vector<float> values(64);
  ExpertWeights experts = experts_;
  experts.gate_up_bias = ConstTensorView(values.data(), Shape{3, 6});
  EXPECT_EQ(Reject(x_.view(), experts, out_.view()),
            "[moe_ffn] gate_up_bias must be [E,2F] (no gate: [E,F]) f32, contiguous; got [3,6] f32 "
            "for 3 x [12,8] "
            "bf16 gate_up panels");
  experts.gate_up_bias = {};
  experts.down_bias = ConstTensorView(values.data(), Shape{2, 8});
  EXPECT_EQ(Reject(x_.view(), experts, out_.view()),
            "[moe_ffn] down_bias must be [E,H] f32, contiguous; got [2,8] f32 for 3 x [8,6] bf16 "
            "panels");
}

TEST_F(MoeFfnErrorsTest, OutputOfAnotherShapeOrType) {
  EXPECT_EQ(Reject(x_.view(), experts_, Matrix(DType::kF32, 4, 7).view()),
            "[moe_ffn] output must have the input's shape, and its dtype or f32; got output [4,7] "
            "f32, input "
            "[4,8] f32");
  EXPECT_EQ(Reject(x_.view(), experts_, Matrix(DType::kBf16, 4, 8).view()),
            "[moe_ffn] output must have the input's shape, and its dtype or f32; got output [4,8] "
            "bf16, input "
            "[4,8] f32");
}

TEST_F(MoeFfnErrorsTest, PanelsInTheWrongOrder) {
  EXPECT_EQ(Reject(x_.view(), {Down(3, 12, 8), experts_.down}, out_.view()),
            "[moe_ffn] gate_up dim 1 must be twice down dim 2 (F), in plain panels (no gate) equal "
            "to it; got gate_up 3 x [12,8] bf16 panels, down 3 x [8,6] bf16 panels");
  EXPECT_EQ(Reject(x_.view(), {experts_.gate_up, GateUp(3, 4, 6)}, out_.view()),
            "[moe_ffn] down must be in plain panels; got 3 x [8,6] bf16 gate_up panels");
}

TEST_F(MoeFfnErrorsTest, ClampedSwigluWithoutAGate) {
  const ExpertWeights plain{Down(3, 6, 8), experts_.down};
  EXPECT_EQ(Rejection([&] {
              MoeFfn(context_, x_.view(), plan_, plain, {.activation = Activation::kClampedSwiglu},
                     out_.view());
            }),
            "[moe_ffn] clamped SwiGLU must have a gate; got gate_up 3 x [6,8] bf16 panels");
}

TEST_F(MoeFfnErrorsTest, OutputOverTheInput) {
  EXPECT_EQ(Reject(x_.view(), experts_, x_.view()),
            "[moe_ffn] output must not overlap the input; got [4,8] f32");
}

TEST_F(MoeFfnErrorsTest, ExpertsThatAreNotThere) {
  std::vector<const std::byte*> pointers;
  for (int64_t expert = 0; expert < 3; ++expert) {
    pointers.push_back(plan_.expert_counts[static_cast<size_t>(expert)] == 0
                           ? nullptr
                           : experts_.gate_up.expert(expert));
  }
  const auto rows = plan_.expert_counts[1];
  ASSERT_GT(rows, 0);
  pointers[1] = nullptr;
  EXPECT_EQ(Reject(x_.view(), {PackedWeights(experts_.gate_up.layout(), pointers), experts_.down},
                   out_.view()),
            "[moe_ffn] experts that have rows must have weights; got none for expert 1 with " +
                std::to_string(rows) + " rows");
}

TEST_F(MoeFfnErrorsTest, WidthsThatDoNotFit) {
  const std::string rule =
      "[moe_ffn] gate_up dim 2 and down dim 1 must equal input dim 1 (H); got gate_up ";
  EXPECT_EQ(Reject(x_.view(), {GateUp(3, 6, 9), experts_.down}, out_.view()),
            rule + "3 x [12,9] bf16 gate_up panels, down 3 x [8,6] bf16 panels, input [4,8] f32");
  EXPECT_EQ(Reject(x_.view(), {experts_.gate_up, Down(3, 9, 6)}, out_.view()),
            rule + "3 x [12,8] bf16 gate_up panels, down 3 x [9,6] bf16 panels, input [4,8] f32");
  EXPECT_EQ(
      Reject(x_.view(), {GateUp(3, 5, 8), experts_.down}, out_.view()),
      "[moe_ffn] gate_up dim 1 must be twice down dim 2 (F), in plain panels (no gate) equal to "
      "it; got gate_up 3 x [10,8] bf16 "
      "gate_up panels, down 3 x [8,6] bf16 panels");
}

TEST_F(MoeFfnErrorsTest, NumbersOfExpertsThatDiffer) {
  const std::string rule =
      "[moe_ffn] plan, gate_up and down must have the same number of experts; got plan 3, gate_up ";
  EXPECT_EQ(Reject(x_.view(), {GateUp(4, 6, 8), experts_.down}, out_.view()),
            rule + "4 x [12,8] bf16 gate_up panels, down 3 x [8,6] bf16 panels");
  EXPECT_EQ(Reject(x_.view(), {GateUp(2, 6, 8), Down(2, 8, 6)}, out_.view()),
            rule + "2 x [12,8] bf16 gate_up panels, down 2 x [8,6] bf16 panels");
}

TEST_F(MoeFfnErrorsTest, APlanOfOtherTokens) {
  EXPECT_EQ(
      Reject(x_.FirstRows(3), experts_, out_.FirstRows(3)),
      "[moe_ffn] plan must be of the input's tokens (T); got 4 tokens planned for input [3,8] "
      "f32");
}

TEST_F(MoeFfnErrorsTest, NothingIsWrittenBeforeAnError) {
  Reject(x_.view(), {GateUp(3, 5, 8), experts_.down}, out_.view());
  EXPECT_TRUE(out_.IsUnwritten(0));
}

TEST(MoeFfnDispatchTest, TheLogTellsWhichImplementationRan) {
  std::vector<std::string> lines;
  const Context context = MakeLoggingContext(lines, "dispatch");
  const TestExperts experts(context, DType::kF32, 2, 4, 3, 1);
  const RoutingPlan plan = MakePlan(context, RandomSlots(2, 2, 1, 1), 2);
  Matrix out(DType::kF32, 2, 4);
  MoeFfn(context, Matrix::Random(DType::kF32, 2, 4, 1).view(), plan, experts.packed, {},
         out.view());
  EXPECT_EQ(lines, std::vector<std::string>{"dispatch: moe_ffn: fused"});
}

}  // namespace
}  // namespace opst
