// Tests that the fused MoE layer needs bounded memory for any number of tokens, and that long
// batches equal short ones.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/scratch_pool.h"
#include "base/testing/process_memory.h"
#include "ops/testing/contexts.h"
#include "ops/testing/moe_oracle.h"
#include "ops/testing/plans.h"

namespace opst {
namespace {

// What the last call took: the arena that it borrowed is lent next, and asks for as much again.
size_t ScratchBytes(const Context& context) {
  const ScratchPool::Lease arena = context.scratch().Borrow();
  arena->Take<float>(1);
  return arena->capacity_bytes();
}

// Two experts a token, all experts equally hot.
Slots RegularSlots(int64_t num_tokens, int64_t num_experts) {
  Slots slots{num_tokens, 2, {}, {}};
  for (int64_t token = 0; token < num_tokens; ++token) {
    slots.ids.push_back(static_cast<int32_t>(token % num_experts));
    slots.ids.push_back(static_cast<int32_t>((token * 7 + 1 + token / num_experts) % num_experts));
    slots.weights.insert(slots.weights.end(), {0.75f, 0.25f});
  }
  return slots;
}

constexpr int64_t kTokens = kMeasuresMemory ? 1'000'000 : 100'000;

TEST(MoeFfnWorkspaceTest, AMillionTokensStayWithinTheSetting) {
  constexpr int64_t kHidden = 64;
  constexpr int64_t kExperts = 64;
  constexpr int64_t kLimit = int64_t{256} << 20;
  const Context context = MakeContext(2);
  const TestExperts experts(context, DType::kBf16, kExperts, kHidden, 16, 1);
  const Tensor x(DType::kBf16, Shape{kTokens, kHidden});
  const Tensor out(DType::kBf16, Shape{kTokens, kHidden});
  for (int64_t i = 0; i < kTokens * kHidden; ++i) {
    const uint32_t hash = static_cast<uint32_t>(i) * 2654435761u;
    x.as<Bf16>()[i] = ToBf16(static_cast<float>(hash >> 16) * 0x1p-15f - 1);
    out.as<Bf16>()[i] = Bf16{1};
  }
  const Slots slots = RegularSlots(kTokens, kExperts);
  const RoutingPlan plan = MakePlan(context, slots, kExperts);

  const bool measures = kMeasuresMemory && ResetPeak();
  const int64_t before = MemoryBytes("VmRSS");
  MoeFfn(context, x, plan, experts.packed, {}, out);
  if (measures) {
    EXPECT_LE(MemoryBytes("VmHWM") - before, kLimit + (4 << 20));
  }
  const size_t scratch_bytes = ScratchBytes(context);
  EXPECT_LE(scratch_bytes, static_cast<size_t>(kLimit));
  if (kTokens == 1'000'000) {
    EXPECT_GE(scratch_bytes, static_cast<size_t>(kLimit) / 2) << "the budget is hardly used";
  }

  for (int64_t token = 0; token < kTokens; token += 9973) {
    const RoutingPlan one = MakePlan(context, slots.Slice(token, 1), kExperts);
    Matrix alone(DType::kBf16, 1, kHidden);
    const TensorView row(x.view().mutable_row(token), DType::kBf16, Shape{1, kHidden});
    MoeFfn(context, row, one, experts.packed, {}, alone.view());
    ASSERT_EQ(std::memcmp(alone.view().row(0), out.view().row(token), 2 * kHidden), 0) << token;
  }
}

TEST(MoeFfnWorkspaceTest, ASmallSettingMakesSmallChunks) {
  const TestExperts experts(MakeContext(1), DType::kF32, 8, 40, 300, 1);
  const Matrix x = Matrix::Random(DType::kF32, 3000, 40, 2);
  Matrix wanted(DType::kF32, 3000, 40);
  const Context whole = MakeContext(2);
  const RoutingPlan plan = MakePlan(whole, RandomSlots(3000, 8, 2, 3), 8);
  MoeFfn(whole, x.view(), plan, experts.packed, {}, wanted.view());
  for (const char* size : {"2MB", "3MB", "8MB"}) {
    const Context context = MakeContext(2, {{"stage1_buffer_size", size}});
    Matrix out(DType::kF32, 3000, 40);
    MoeFfn(context, x.view(), plan, experts.packed, {}, out.view());
    EXPECT_TRUE(out.HasSameBits(wanted)) << size;
    EXPECT_LE(ScratchBytes(context), std::stoul(size) << 20) << size;
  }
}

// 70,000 rows for one expert: more than 16 bits, many parts; equal to a plain feed-forward layer.
TEST(MoeFfnWorkspaceTest, SeventyThousandTokensOnOneExpertEqualAPlainLayer) {
  constexpr int64_t kMany = 70'000;
  const Context context = MakeContext(2);
  const TestExperts experts(context, DType::kBf16, 4, 16, 8, 1);
  const Matrix x = Matrix::Random(DType::kBf16, kMany, 16, 2);
  Slots slots{kMany, 1, std::vector<int32_t>(kMany, 0), std::vector<float>(kMany, 1)};
  Matrix out(DType::kBf16, kMany, 16);
  const RoutingPlan plan = MakePlan(context, slots, 4);
  MoeFfn(context, x.view(), plan, experts.packed, {}, out.view());
  const WorstElement worst = CompareMoe(MoeOracle(x, plan, experts, {}), out, kMany);
  EXPECT_TRUE(worst.is_within_tolerance()) << worst;
}

}  // namespace
}  // namespace opst
