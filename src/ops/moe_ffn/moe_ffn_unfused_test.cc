// Tests that the fused MoE layer has the bits of its parts run one after the other.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/rows.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/moe_oracle.h"
#include "ops/testing/plans.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/ops/permute.h"

namespace opst {
namespace {

// act(gate) ∘ up of [R, 2F] with gates first; the library's vector activation.
Matrix Activate(Activation activation, const Matrix& gate_up) {
  const int64_t ffn = gate_up.columns() / 2;
  Matrix hidden(DType::kF32, gate_up.rows(), ffn);
  for (int64_t row = 0; row < gate_up.rows(); ++row) {
    for (int64_t f = 0; f < ffn; ++f) {
      std::vector<float> tile(16);
      tile[0] = static_cast<float>(gate_up.At(row, f));
      tile[8] = static_cast<float>(gate_up.At(row, ffn + f));
      std::vector<float> out(8);
      GatedActivation(activation, {}, tile.data(), 1, out.data());
      hidden.Set(row, f, out[0]);
    }
  }
  return hidden;
}

class MoeFfnUnfusedTest : public EachIsaTest {
 protected:
  Matrix Unfused(const Matrix& x, const RoutingPlan& plan, const TestExperts& experts,
                 const MoeFfnOptions& options, const Matrix* before) {
    const DType dtype = x.dtype();
    const PackedWeights gate_up =
        PackExperts(context_, experts.gate_up.Stacked(experts.num_experts), FormatOf(dtype),
                    PanelOrder::kPlain);
    Matrix rows(dtype, plan.num_rows(), experts.hidden);
    Permute(context_, x.view(), plan, rows.view());
    Matrix gates(DType::kF32, plan.num_rows(), 2 * experts.ffn);
    GroupedMatmul(context_, rows.view(), plan.expert_offsets, gate_up, gates.view());
    const Matrix hidden = Activate(options.activation, gates);
    Matrix expert_out(DType::kF32, plan.num_rows(), experts.hidden);
    GroupedMatmul(context_, hidden.view(), plan.expert_offsets, experts.packed.down,
                  expert_out.view());
    Matrix out(dtype, plan.num_tokens, experts.hidden);
    FinalizeRouting(context_, expert_out.view(), plan,
                    {.residual = before != nullptr ? before->view() : ConstTensorView()},
                    out.view());
    return out;
  }

  const Context context_ = MakeContext(2);
};

TEST_P(MoeFfnUnfusedTest, FusedEqualsUnfusedBitForBit) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const auto& [hidden, ffn] :
         std::vector<std::pair<int64_t, int64_t>>{{7, 3}, {100, 33}, {257, 40}, {48, 300}}) {
      const TestExperts experts(context_, dtype, 5, hidden, ffn, 1);
      const Matrix x = Matrix::Random(dtype, 67, hidden, 2);
      const Matrix before = Matrix::Random(dtype, 67, hidden, 3);
      const Slots slots = RandomSlots(67, 5, 2, 4, {.empty_share = 0.1, .skew = 1});
      for (const RoutingPlanOptions plan_options :
           {RoutingPlanOptions{}, RoutingPlanOptions{.capacity_factor = 0.7},
            RoutingPlanOptions{.capacity_factor = 1.5, .pads_to_capacity = true}}) {
        const RoutingPlan plan = MakePlan(context_, slots, 5, plan_options);
        for (const MoeFfnOptions options :
             {MoeFfnOptions{}, MoeFfnOptions{Activation::kGeluTanh, OutputMode::kAdd},
              MoeFfnOptions{Activation::kRelu, OutputMode::kOverwrite}}) {
          const bool adds = options.output_mode == OutputMode::kAdd;
          Matrix fused = before;
          MoeFfn(context_, x.view(), plan, experts.packed, options, fused.view());
          const Matrix unfused = Unfused(x, plan, experts, options, adds ? &before : nullptr);
          ASSERT_TRUE(fused.HasSameBits(unfused))
              << "H " << hidden << ", F " << ffn << ", " << Name(dtype);
        }
      }
    }
  }
}

TEST_P(MoeFfnUnfusedTest, ScaledRoutingWeightsScaleTheOutput) {
  const TestExperts experts(context_, DType::kF32, 5, 40, 20, 1);
  const Matrix x = Matrix::Random(DType::kF32, 30, 40, 2);
  Slots slots = RandomSlots(30, 5, 2, 4);
  Matrix one(DType::kF32, 30, 40);
  MoeFfn(context_, x.view(), MakePlan(context_, slots, 5), experts.packed, {}, one.view());
  for (float& weight : slots.weights) weight *= 2.5f;
  Matrix scaled(DType::kF32, 30, 40);
  MoeFfn(context_, x.view(), MakePlan(context_, slots, 5), experts.packed, {}, scaled.view());
  for (int64_t token = 0; token < 30; ++token) {
    for (int64_t h = 0; h < 40; ++h) {
      EXPECT_NEAR(scaled.At(token, h), 2.5 * one.At(token, h), 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, MoeFfnUnfusedTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
