// Random cases of the fused layer against fp64, in both implementations.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/moe_oracle.h"
#include "ops/testing/plans.h"
#include "ops/testing/random_case.h"
#include "opst/ops/moe_ffn.h"

namespace opst {
namespace {

class MoeFfnRandomTest : public EachIsaTest {
 protected:
  void Check(const Context& context, uint32_t seed) {
    RandomCase random(seed);
    const int64_t num_experts = random.Size(1, 5);
    const int64_t tokens = random.Size(0, 9);
    const Slots slots = RandomSlots(tokens, num_experts, random.Size(1, num_experts), seed,
                                    {.empty_share = 0.1, .skew = 0.5});
    const RoutingPlan plan = MakePlan(
        context, slots, num_experts,
        {.capacity_factor = random.Flag() ? 0 : 0.25 * static_cast<double>(random.Size(1, 6))});
    TestExperts experts(context, random.Float(), num_experts, random.Size(1, 24),
                        random.Size(1, 24), seed);
    const bool has_gate = random.Size(0, 2) > 0;
    if (!has_gate) experts.DropGate(context);
    if (random.Flag()) experts.AddBiases(seed);
    const MoeFfnOptions options{
        .activation = random.Choice<Activation>(6),
        .output_mode = random.Flag() ? OutputMode::kAdd : OutputMode::kOverwrite,
        .workspace_bytes = random.Flag() ? size_t{1} : size_t{0}};
    if (!has_gate && options.activation == Activation::kClampedSwiglu) return;
    const Matrix x = Matrix::Random(random.Float(), tokens, experts.hidden, seed, 1, 1);
    const DType type = random.Flag() ? DType::kF32 : x.dtype();
    const Matrix before = Matrix::Random(type, tokens, experts.hidden, seed + 9, 1, 2);
    const bool adds = options.output_mode == OutputMode::kAdd;
    Matrix out = before;
    MoeFfn(context, x.view(), plan, experts.packed, options, out.view());
    const WorstElement worst =
        CompareMoe(MoeOracle(x, plan, experts, options, adds ? &before : nullptr), out, tokens);
    EXPECT_TRUE(worst.is_within_tolerance()) << worst << " seed " << seed;
    EXPECT_TRUE(out.HasUntouchedGaps());
  }
};

TEST_P(MoeFfnRandomTest, AThousandLayersEqualFp64) {
  const Context context = MakeContext(2);
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) Check(context, seed);
}

TEST_P(MoeFfnRandomTest, TheReferenceEqualsFp64Too) {
  const Context context = MakeReferenceContext();
  for (uint32_t seed = 0; seed < 200 && !HasFailure(); ++seed) Check(context, seed);
}

INSTANTIATE_TEST_SUITE_P(Isa, MoeFfnRandomTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
