// Tests of the fused MoE layer against fp64: all numbers of tokens, odd sizes, types, activations.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/moe_ffn.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/moe_oracle.h"
#include "ops/testing/plans.h"

namespace opst {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};

struct LayerShape {
  int64_t hidden;
  int64_t ffn;
  int64_t num_experts;
  int64_t top_k;
};

class MoeFfnTest : public EachIsaTest {
 protected:
  // The most tokens against fp64, fewer tokens bit for bit against the same tokens of the most.
  void ExpectEveryNumberOfTokens(const LayerShape& shape, DType dtype, int64_t most) {
    const TestExperts experts(context_, dtype, shape.num_experts, shape.hidden, shape.ffn, 1);
    Matrix x = Matrix::Random(dtype, most, shape.hidden, 3);
    const Slots slots = RandomSlots(most, shape.num_experts, shape.top_k, 4, {.skew = 0.5});
    Matrix all(dtype, most, shape.hidden);
    const RoutingPlan plan = MakePlan(context_, slots, shape.num_experts);
    MoeFfn(context_, x.view(), plan, experts.packed, {}, all.view());
    const WorstElement worst = CompareMoe(MoeOracle(x, plan, experts, {}), all, most);
    ASSERT_TRUE(worst.is_within_tolerance())
        << worst << "; H " << shape.hidden << ", F " << shape.ffn << ", " << Name(dtype);
    for (int64_t tokens = 0; tokens < most; ++tokens) {
      const RoutingPlan some = MakePlan(context_, slots.Slice(0, tokens), shape.num_experts);
      Matrix out(dtype, most, shape.hidden, 2);
      MoeFfn(context_, x.FirstRows(tokens), some, experts.packed, {}, out.FirstRows(tokens));
      for (int64_t token = 0; token < tokens; ++token) {
        ASSERT_TRUE(out.HasSameBits(token, all, token))
            << "token " << token << " of " << tokens << "; H " << shape.hidden << ", F "
            << shape.ffn << ", " << Name(dtype);
      }
      EXPECT_TRUE(out.IsUnwritten(tokens) && out.HasUntouchedGaps());
    }
  }

  void ExpectCorrect(const TestExperts& experts, const Slots& slots,
                     const RoutingPlanOptions& plan_options, const MoeFfnOptions& options) {
    const DType dtype = experts.gate_up.dtype();
    const RoutingPlan plan = MakePlan(context_, slots, experts.num_experts, plan_options);
    const Matrix x = Matrix::Random(dtype, plan.num_tokens, experts.hidden, 5, 1, 3);
    const Matrix before = Matrix::Random(dtype, plan.num_tokens, experts.hidden, 6, 1, 1);
    const bool adds = options.output_mode == OutputMode::kAdd;
    const auto wanted = MoeOracle(x, plan, experts, options, adds ? &before : nullptr);
    for (const Context* context : {&context_, &reference_}) {
      Matrix out = before;
      MoeFfn(*context, x.view(), plan, experts.packed, options, out.view());
      const WorstElement worst = CompareMoe(wanted, out, plan.num_tokens);
      EXPECT_TRUE(worst.is_within_tolerance())
          << worst << "; " << Name(dtype) << (context == &reference_ ? ", reference" : "");
      EXPECT_TRUE(out.HasUntouchedGaps());
    }
  }

  const Context context_ = MakeContext(1);
  const Context reference_ = MakeReferenceContext();
};

TEST_P(MoeFfnTest, EveryNumberOfTokensAtOddSizes) {
  for (const DType dtype : kDtypes) {
    ExpectEveryNumberOfTokens({7, 3, 5, 2}, dtype, 71);
    ExpectEveryNumberOfTokens({100, 33, 4, 2}, dtype, 71);
    ExpectEveryNumberOfTokens({1, 1, 3, 1}, dtype, 71);
    ExpectEveryNumberOfTokens({64, 32, 8, 4}, dtype, 71);
  }
}

TEST_P(MoeFfnTest, EveryNumberOfTokensBeyondOneBlockOfInputs) {
  for (const DType dtype : kDtypes) ExpectEveryNumberOfTokens({257, 300, 3, 2}, dtype, 71);
}

// The tails of rows at widths around those of vectors, panels and blocks.
TEST_P(MoeFfnTest, EveryElementOfOddRowsIsComputed) {
  for (const DType dtype : kDtypes) {
    for (const int64_t hidden : {1, 7, 100, 255, 257, 300}) {
      for (const int64_t ffn : {1, 3, 33}) {
        const TestExperts experts(context_, dtype, 2, hidden, ffn, 9);
        ExpectCorrect(experts, RandomSlots(5, 2, 2, 1), {}, {});
      }
    }
  }
}

TEST_P(MoeFfnTest, EveryActivationInBothOutputModes) {
  for (const DType dtype : kDtypes) {
    const TestExperts experts(context_, dtype, 6, 41, 23, 2);
    const Slots slots = RandomSlots(33, 6, 3, 7);
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kRelu,
                                        Activation::kGelu, Activation::kQuickGelu}) {
      for (const OutputMode mode : {OutputMode::kOverwrite, OutputMode::kAdd}) {
        ExpectCorrect(experts, slots, {}, {.activation = activation, .output_mode = mode});
      }
    }
  }
}

TEST_P(MoeFfnTest, ExpertsWithoutAGate) {
  for (const DType dtype : kDtypes) {
    for (const auto& [hidden, ffn] :
         std::vector<std::pair<int64_t, int64_t>>{{41, 23}, {270, 530}, {7, 1}, {16, 256}}) {
      TestExperts experts(context_, dtype, 4, hidden, ffn, 3);
      experts.DropGate(context_);
      const Slots slots = RandomSlots(21, 4, 2, 7);
      for (const Activation activation :
           {Activation::kSilu, Activation::kGeluTanh, Activation::kRelu, Activation::kGelu,
            Activation::kQuickGelu}) {
        ExpectCorrect(experts, slots, {}, {.activation = activation});
      }
      experts.AddBiases(11);
      ExpectCorrect(experts, slots, {},
                    {.activation = Activation::kGelu, .output_mode = OutputMode::kAdd});
    }
  }
}

TEST_P(MoeFfnTest, WithoutAGateATokenHasTheSameBitsInAnyBatch) {
  for (const DType dtype : kDtypes) {
    TestExperts experts(context_, dtype, 3, 70, 300, 3);
    experts.DropGate(context_);
    const MoeFfnOptions options{.activation = Activation::kGelu};
    const Slots slots = RandomSlots(90, 3, 2, 7, {.skew = 1});
    Matrix x = Matrix::Random(dtype, 90, 70, 4);
    Matrix all(dtype, 90, 70);
    MoeFfn(MakeContext(3), x.view(), MakePlan(context_, slots, 3), experts.packed, options,
           all.view());
    for (const int64_t tokens : {1, 12, 13, 40}) {
      Matrix out(dtype, tokens, 70);
      MoeFfn(context_, x.FirstRows(tokens), MakePlan(context_, slots.Slice(0, tokens), 3),
             experts.packed, options, out.view());
      for (int64_t token = 0; token < tokens; ++token) {
        EXPECT_TRUE(out.HasSameBits(token, all, token)) << token << " of " << tokens;
      }
    }
  }
}

TEST_P(MoeFfnTest, BiasesAndTheClampedActivation) {
  for (const DType dtype : kDtypes) {
    for (const auto& [hidden, ffn] :
         std::vector<std::pair<int64_t, int64_t>>{{41, 23}, {300, 70}, {7, 1}}) {
      TestExperts experts(context_, dtype, 4, hidden, ffn, 3);
      experts.AddBiases(11);
      const Slots slots = RandomSlots(21, 4, 2, 7);
      for (const float limit : {7.0f, 0.5f}) {
        const MoeFfnOptions clamped{.activation = Activation::kClampedSwiglu,
                                    .limits = {.alpha = 1.702f, .limit = limit}};
        ExpectCorrect(experts, slots, {}, clamped);
      }
      ExpectCorrect(experts, slots, {}, {.output_mode = OutputMode::kAdd});
    }
  }
}

TEST_P(MoeFfnTest, EmptyDroppedAndPaddedSlots) {
  const TestExperts experts(context_, DType::kBf16, 7, 37, 19, 3);
  for (const OutputMode mode : {OutputMode::kOverwrite, OutputMode::kAdd}) {
    const MoeFfnOptions options{.output_mode = mode};
    for (const double empty_share : {0.0, 0.4, 1.0}) {
      const Slots slots = RandomSlots(50, 7, 3, 8, {.empty_share = empty_share, .skew = 3});
      ExpectCorrect(experts, slots, {}, options);
      ExpectCorrect(experts, slots, {.capacity_factor = 0.5}, options);
      ExpectCorrect(experts, slots, {.capacity_factor = 1.5, .pads_to_capacity = true}, options);
    }
  }
}

TEST_P(MoeFfnTest, EveryExpertOfEveryToken) {
  const TestExperts experts(context_, DType::kF32, 9, 20, 11, 4);
  ExpectCorrect(experts, RandomSlots(17, 9, 9, 1), {}, {});
}

TEST_P(MoeFfnTest, OneExpertTakesAllTokens) {
  const TestExperts experts(context_, DType::kF32, 4, 33, 17, 5);
  Slots slots = RandomSlots(450, 4, 1, 1);  // several tasks and several parts of rows
  for (int32_t& id : slots.ids) id = 2;
  ExpectCorrect(experts, slots, {}, {});
}

TEST_P(MoeFfnTest, AThousandExperts) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const TestExperts experts(context_, dtype, 1024, 13, 5, 6);
    ExpectCorrect(experts, RandomSlots(40, 1024, 8, 1), {}, {});
  }
  const TestExperts experts(context_, DType::kF32, 1024, 6, 3, 7);
  ExpectCorrect(experts, RandomSlots(2, 1024, 1024, 1), {}, {});
}

// Wide layers: down columns in blocks of 128 and several column tasks of the first phase.
TEST_P(MoeFfnTest, WideLayers) {
  const TestExperts experts(context_, DType::kBf16, 2, 1100, 301, 8);
  ExpectCorrect(experts, RandomSlots(3, 2, 1, 1), {}, {});
}

TEST_P(MoeFfnTest, ATokenMayNameAnExpertTwice) {
  const TestExperts experts(context_, DType::kF32, 3, 9, 5, 9);
  ExpectCorrect(experts, {2, 3, {1, 1, 0, 2, 1, 2}, {0.5f, 0.25f, 1, 1, 2, 3}}, {}, {});
}

TEST_P(MoeFfnTest, NoTokensNoSlotsAndNoColumnsOfF) {
  const TestExperts experts(context_, DType::kBf16, 3, 9, 5, 9);
  MoeFfn(context_, Matrix(DType::kBf16, 0, 9).view(), MakePlan(context_, Slots{0, 2, {}, {}}, 3),
         experts.packed, {}, Matrix(DType::kBf16, 0, 9).view());
  ExpectCorrect(experts, Slots{4, 0, {}, {}}, {}, {});
  const TestExperts narrow(context_, DType::kBf16, 3, 9, 0, 9);
  ExpectCorrect(narrow, RandomSlots(4, 3, 2, 1), {}, {.output_mode = OutputMode::kAdd});
}

TEST_P(MoeFfnTest, WeightsOfZeroGiveZero) {
  const TestExperts experts(context_, DType::kF32, 3, 9, 5, 9);
  Slots slots = RandomSlots(4, 3, 2, 1);
  for (float& weight : slots.weights) weight = 0;
  ExpectCorrect(experts, slots, {}, {});
}

INSTANTIATE_TEST_SUITE_P(Isa, MoeFfnTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
