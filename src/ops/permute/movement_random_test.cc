// Random cases of the movement of rows: against loops, and the operators of whole plans against
// those of index lists, bit for bit.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/plans.h"
#include "ops/testing/random_case.h"
#include "ops/testing/worst_element.h"
#include "opst/ops/permute.h"
#include "opst/ops/sparse_rows.h"

namespace opst {
namespace {

constexpr uint32_t kCases = 1000;

// A plan of any kind, its rows as an index list, and sizes.
struct Movement {
  Movement(const Context& context, uint32_t seed)
      : random(seed),
        experts(random.Size(1, 6)),
        hidden(random.Size(1, 40)),
        plan(MakePlan(context,
                      RandomSlots(random.Size(0, 12), experts, random.Size(1, experts), seed,
                                  {.empty_share = 0.1, .skew = 0.5}),
                      experts, PlanOptions())) {
    for (const int32_t slot : plan.row_to_slot) {
      const bool is_padding = slot < 0;
      tokens.push_back(is_padding ? -1 : static_cast<int32_t>(slot / plan.top_k));
      weights.push_back(is_padding ? 0 : plan.expert_weights[static_cast<size_t>(slot)]);
    }
  }

  RoutingPlanOptions PlanOptions() {
    if (random.Flag()) return {};
    return {.capacity_factor = 0.25 * static_cast<double>(random.Size(1, 8)),
            .pads_to_capacity = random.Flag(),
            .drop_order = random.Choice<DropOrder>(3)};
  }
  ConstTensorView token_view() const { return {tokens.data(), Shape{plan.num_rows()}}; }
  ConstTensorView weight_view() const { return {weights.data(), Shape{plan.num_rows()}}; }

  RandomCase random;
  int64_t experts;
  int64_t hidden;
  RoutingPlan plan;
  std::vector<int32_t> tokens;  // of each row
  std::vector<float> weights;
};

class MovementRandomTest : public EachIsaTest {
 protected:
  const Context context_ = MakeContext(2);
};

TEST_P(MovementRandomTest, PermuteIsAGatherOfTheRowsTokens) {
  for (uint32_t seed = 0; seed < kCases && !HasFailure(); ++seed) {
    Movement movement(context_, seed);
    const RoutingPlan& plan = movement.plan;
    const Matrix x =
        Matrix::Random(movement.random.Float(), plan.num_tokens, movement.hidden, seed, 1, 1);
    Matrix permuted(x.dtype(), plan.num_rows(), movement.hidden, 2);
    Matrix gathered = permuted;
    Permute(context_, x.view(), plan, permuted.view());
    SparseGather(context_, x.view(), movement.token_view(), gathered.view());
    EXPECT_TRUE(permuted.HasSameBits(gathered) && permuted.HasUntouchedGaps()) << seed;
    for (int64_t row = 0; row < plan.num_rows(); ++row) {
      const int32_t token = movement.tokens[static_cast<size_t>(row)];
      for (int64_t h = 0; h < movement.hidden; ++h) {
        ASSERT_EQ(gathered.At(row, h), token < 0 ? 0 : x.At(token, h)) << seed;
      }
    }
  }
}

// Rows ascend by expert, which is the order of the plan's sum.
TEST_P(MovementRandomTest, FinalizeIsAScatterOfWeightedRowsAndEqualsFp64) {
  for (uint32_t seed = 0; seed < kCases && !HasFailure(); ++seed) {
    Movement movement(context_, seed);
    const RoutingPlan& plan = movement.plan;
    const Matrix rows =
        Matrix::Random(movement.random.Float(), plan.num_rows(), movement.hidden, seed, 1, 1);
    Matrix sums(movement.random.Float(), plan.num_tokens, movement.hidden, 2);
    Matrix scattered = sums;
    FinalizeRouting(context_, rows.view(), plan, {}, sums.view());
    SparseScatterAdd(context_, rows.view(), movement.token_view(), movement.weight_view(),
                     OutputMode::kOverwrite, scattered.view());
    EXPECT_TRUE(sums.HasSameBits(scattered) && sums.HasUntouchedGaps()) << seed;
    WorstElement worst;
    for (int64_t token = 0; token < plan.num_tokens; ++token) {
      for (int64_t h = 0; h < movement.hidden; ++h) {
        double sum = 0, magnitude = 0;
        for (int64_t row = 0; row < plan.num_rows(); ++row) {
          if (movement.tokens[static_cast<size_t>(row)] != token) continue;
          const double product =
              static_cast<double>(movement.weights[static_cast<size_t>(row)]) * rows.At(row, h);
          sum += product;
          magnitude += std::abs(product);
        }
        worst.Add(token, h, sums.At(token, h), sum,
                  ChainError(plan.top_k, magnitude) + 1.01 * RoundingError(sums.dtype(), sum));
      }
    }
    EXPECT_TRUE(worst.is_within_tolerance()) << worst << " seed " << seed;
  }
}

// The gradient of a gather is a scatter, that of the weighted sum a weighted gather.
TEST_P(MovementRandomTest, GradientsAreTheOtherMovement) {
  for (uint32_t seed = 0; seed < kCases && !HasFailure(); ++seed) {
    Movement movement(context_, seed);
    const RoutingPlan& plan = movement.plan;
    const Matrix d_out = Matrix::Random(DType::kF32, plan.num_tokens, movement.hidden, seed, 1, 1);
    Matrix d_rows(DType::kF32, plan.num_rows(), movement.hidden);
    Matrix gathered = d_rows;
    FinalizeRoutingBackward(context_, d_out.view(), {}, plan, {}, {.d_expert_out = d_rows.view()});
    SparseGather(context_, d_out.view(), movement.token_view(), gathered.view());
    for (int64_t row = 0; row < plan.num_rows(); ++row) {
      const float weight = movement.weights[static_cast<size_t>(row)];
      for (int64_t h = 0; h < movement.hidden; ++h) {
        const float product = weight * static_cast<float>(gathered.At(row, h));
        ASSERT_EQ(d_rows.At(row, h), static_cast<double>(product)) << seed;
      }
    }
  }
}

// Weights of 1/k of rows that are copies give the tokens back.
TEST_P(MovementRandomTest, ThereAndBackWithWeightsOfOneOverKIsTheIdentity) {
  for (uint32_t seed = 0; seed < kCases && !HasFailure(); ++seed) {
    RandomCase random(seed);
    const int64_t top_k = int64_t{1} << random.Size(0, 3);  // 1/k is exact
    const int64_t tokens = random.Size(0, 12), hidden = random.Size(1, 40);
    Slots slots = RandomSlots(tokens, 8, top_k, seed);
    for (float& weight : slots.weights) weight = 1 / static_cast<float>(top_k);
    const RoutingPlan plan = MakePlan(context_, slots, 8);
    const Matrix x = Matrix::Random(DType::kBf16, tokens, hidden, seed);
    Matrix rows(DType::kBf16, plan.num_rows(), hidden), back(DType::kBf16, tokens, hidden);
    Permute(context_, x.view(), plan, rows.view());
    FinalizeRouting(context_, rows.view(), plan, {}, back.view());
    EXPECT_TRUE(back.HasSameBits(x)) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, MovementRandomTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
