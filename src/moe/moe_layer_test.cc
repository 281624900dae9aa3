// Tests of the whole layer: bounded memory for any number of tokens, and the same bits whatever the
// chunks.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/moe_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/process_memory.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/moe_oracle.h"
#include "opst/ops/grouped_matmul.h"

namespace opst {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

// A layer with a gated shared expert, its weights random.
struct TestLayer {
  TestLayer(const Context& context, int64_t num_experts, int64_t hidden, int64_t ffn, int64_t top_k)
      : routed(context, DType::kF32, num_experts, hidden, ffn, 1),
        shared(context, DType::kF32, 1, hidden, ffn, 5),
        router(Matrix::Random(DType::kF32, num_experts, hidden, 9)),
        gate(Matrix::Random(DType::kF32, 1, hidden, 10)),
        layer({.num_experts = num_experts, .top_k = top_k},
              {.hidden = hidden, .ffn = ffn, .shared_ffn = ffn, .has_shared_gate = true},
              {PackPlain(context, router), {}}, std::make_shared<LocalExpertStore>(routed.packed),
              SharedExpert{shared.packed, PackPlain(context, gate)}) {}

  static PackedWeights PackPlain(const Context& context, const Matrix& matrix) {
    return PackExperts(context, matrix.Stacked(1), WeightFormat::kF32, PanelOrder::kPlain);
  }

  TestExperts routed;
  TestExperts shared;
  Matrix router;
  Matrix gate;
  MoeLayer layer;
};

TEST(MoeLayerTest, IsTheRoutedExpertsPlusTheGatedSharedOne) {
  constexpr int64_t kTokens = 40;
  const Context context = MakeContext(2);
  const TestLayer test(context, 6, 24, 20, 2);
  const Matrix x = Matrix::Random(DType::kF32, kTokens, 24, 3);
  Matrix out(DType::kF32, kTokens, 24);
  const RoutingPlan plan = test.layer.Forward(context, x.view(), out.view());

  std::vector<Bounded> wanted = MoeOracle(x, plan, test.routed, {});
  const RoutingPlan every = BuildRoutingPlan(context, std::vector<int32_t>(kTokens, 0),
                                             std::vector<float>(kTokens, 1), 1, 1);
  const std::vector<Bounded> shared = MoeOracle(x, every, test.shared, {});
  for (int64_t token = 0; token < kTokens; ++token) {
    // The two best of the router's scores, in fp64.
    const std::vector<double> input = x.Row(token);
    std::vector<std::pair<double, int32_t>> logits;
    for (int32_t expert = 0; expert < 6; ++expert) {
      logits.emplace_back(-Dot(input, test.router.Row(expert)).value, expert);
    }
    std::sort(logits.begin(), logits.end());
    EXPECT_EQ(plan.expert_ids[static_cast<size_t>(2 * token)], logits[0].second) << token;
    EXPECT_EQ(plan.expert_ids[static_cast<size_t>(2 * token + 1)], logits[1].second) << token;

    const DotProduct gate = Dot(input, test.gate.Row(0));
    const double scale = 1 / (1 + std::exp(-gate.value));
    // sigmoid' <= 1/4; exp, sum and quotient of f32 add a few roundings.
    const double scale_error = ChainError(24, gate.magnitude) / 4 + 8 * 0x1p-24;
    for (int64_t h = 0; h < 24; ++h) {
      const auto i = static_cast<size_t>(token * 24 + h);
      const double before = std::abs(wanted[i].value);
      wanted[i].value += scale * shared[i].value;
      wanted[i].error += scale * shared[i].error + scale_error * std::abs(shared[i].value) +
                         ChainError(2, before + std::abs(scale * shared[i].value));
    }
  }
  const WorstElement worst = CompareMoe(wanted, out, kTokens);
  EXPECT_TRUE(worst.is_within_tolerance()) << worst;
}

TEST(MoeLayerTest, BitsAndPlanAreTheSameWhateverTheChunks) {
  constexpr int64_t kTokens = 700;
  const Context whole = MakeContext(2);
  const TestLayer test(whole, 8, 40, 36, 3);
  Matrix x = Matrix::Random(DType::kF32, kTokens, 40, 4);
  for (const int64_t broken : {3, 350, 699}) {
    x.Set(broken, 1, std::numeric_limits<double>::quiet_NaN());
  }
  Matrix wanted(DType::kF32, kTokens, 40);
  const RoutingPlan plan = test.layer.Forward(whole, x.view(), wanted.view());
  EXPECT_EQ(plan.num_empty_rows, 3);
  // From one token at a time (less than one needs) to some hundred.
  for (const char* size : {"1", "100", "1KB", "3000", "10KB", "1MB"}) {
    for (const int threads : {1, 2}) {
      const Context context =
          MakeContext(threads, {{"stage1_buffer_size", size}, {"log", "error"}});
      Matrix out(DType::kF32, kTokens, 40);
      const RoutingPlan chunked = test.layer.Forward(context, x.view(), out.view());
      EXPECT_TRUE(out.HasSameBits(wanted)) << size;
      EXPECT_EQ(chunked.expert_ids, plan.expert_ids) << size;
      EXPECT_EQ(chunked.expert_weights, plan.expert_weights) << size;
      EXPECT_EQ(chunked.row_to_slot, plan.row_to_slot) << size;
      EXPECT_EQ(chunked.num_empty_rows, plan.num_empty_rows) << size;
    }
  }
}

// Rounding the routed sum before the shared expert is added would round twice.
TEST(MoeLayerTest, SixteenBitOutputsAreTheF32OnesRoundedOnce) {
  constexpr int64_t kTokens = 70;
  const Context context = MakeContext(2, {{"stage1_buffer_size", "20KB"}});
  const TestLayer test(context, 6, 24, 20, 2);
  const Matrix x = Matrix::Random(DType::kBf16, kTokens, 24, 3);
  Matrix wide(DType::kF32, kTokens, 24);
  Matrix wide_out(DType::kF32, kTokens, 24);
  for (int64_t token = 0; token < kTokens; ++token) {
    for (int64_t h = 0; h < 24; ++h) wide.Set(token, h, x.At(token, h));
  }
  const RoutingPlan wanted = test.layer.Forward(context, wide.view(), wide_out.view());
  Matrix out(DType::kBf16, kTokens, 24);
  const RoutingPlan plan = test.layer.Forward(context, x.view(), out.view());
  EXPECT_EQ(plan.expert_ids, wanted.expert_ids);
  for (int64_t token = 0; token < kTokens; ++token) {
    for (int64_t h = 0; h < 24; ++h) {
      const float rounded = ToFloat(ToBf16(static_cast<float>(wide_out.At(token, h))));
      ASSERT_EQ(out.At(token, h), rounded) << token << ", " << h;
    }
  }
}

TEST(MoeLayerTest, NoTokensGiveAnEmptyPlan) {
  const Context context = MakeContext(2);
  const TestLayer test(context, 4, 16, 16, 2);
  const Matrix x(DType::kF32, 0, 16);
  Matrix out(DType::kF32, 0, 16);
  const RoutingPlan plan = test.layer.Forward(context, x.view(), out.view());
  EXPECT_EQ(plan.num_tokens, 0);
  EXPECT_EQ(plan.num_rows(), 0);
}

TEST(MoeLayerTest, AMillionTokensStayWithinTheSettingBesidesThePlan) {
  constexpr int64_t kTokens = kMeasuresMemory ? 1'000'000 : 50'000;
  constexpr int64_t kHidden = 64;
  const Context context = MakeContext(2);
  const TestLayer test(context, 64, kHidden, 16, 2);
  const Tensor x(DType::kBf16, Shape{kTokens, kHidden});
  const Tensor out(DType::kBf16, Shape{kTokens, kHidden});
  for (int64_t i = 0; i < kTokens * kHidden; ++i) {
    const uint32_t hash = static_cast<uint32_t>(i) * 2654435761u;
    x.as<Bf16>()[i] = ToBf16(static_cast<float>(hash >> 16) * 0x1p-15f - 1);
    out.as<Bf16>()[i] = Bf16{1};
  }

  const bool measures = kMeasuresMemory && ResetPeak();
  const int64_t before = MemoryBytes("VmRSS");
  const RoutingPlan plan = test.layer.Forward(context, x, out);
  if (measures) {
    const int64_t plan_bytes = 4 * static_cast<int64_t>(sizeof(int32_t)) * kTokens * 2;
    EXPECT_LE(MemoryBytes("VmHWM") - before - plan_bytes, 256 * kMegabyte);
  }

  for (int64_t token = 0; token < kTokens; token += 9973) {
    Matrix alone(DType::kBf16, 1, kHidden);
    const TensorView row(x.view().mutable_row(token), DType::kBf16, Shape{1, kHidden});
    test.layer.Forward(context, row, alone.view());
    ASSERT_EQ(std::memcmp(alone.view().row(0), out.view().row(token), 2 * kHidden), 0) << token;
  }
}

}  // namespace
}  // namespace opst
