// Tests that a token's bits depend on the token, its experts and nothing else; NaN included.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/moe_oracle.h"
#include "ops/testing/plans.h"

namespace opst {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A layer with hot and empty experts, odd sizes and enough tokens for several tasks per expert.
struct Layer {
  explicit Layer(DType dtype, int64_t hidden = 77, int64_t ffn = 45)
      : experts(MakeContext(1), dtype, 6, hidden, ffn, 1),
        x(Matrix::Random(dtype, 260, hidden, 2)),
        slots(RandomSlots(260, 6, 2, 3, {.empty_share = 0.05, .skew = 2})) {}

  Matrix Run(const Context& context, const MoeFfnOptions& options = {}) const {
    Matrix out(x.dtype(), x.rows(), x.columns());
    out.Fill(0.5);
    const RoutingPlan plan = MakePlan(context, slots, 6);
    MoeFfn(context, x.view(), plan, experts.packed, options, out.view());
    return out;
  }

  TestExperts experts;
  Matrix x;
  Slots slots;
};

class MoeFfnInvarianceTest : public EachIsaTest {};

TEST_P(MoeFfnInvarianceTest, ThreadsTaskSizesAndChunksDoNotChangeBits) {
  for (const DType dtype : kDtypes) {
    const Layer layer(dtype);
    for (const OutputMode mode : {OutputMode::kOverwrite, OutputMode::kAdd}) {
      const MoeFfnOptions options{.output_mode = mode};
      const Matrix wanted = layer.Run(MakeContext(1), options);
      for (const int threads : {2, 3, 7}) {
        EXPECT_TRUE(layer.Run(MakeContext(threads), options).HasSameBits(wanted)) << threads;
      }
      for (const char* rows : {"1", "13", "32", "128"}) {
        const Context context = MakeContext(2, {{"expert_batch_size", rows}});
        EXPECT_TRUE(layer.Run(context, options).HasSameBits(wanted)) << rows;
      }
      for (const char* bytes : {"0", "900KB", "1MB", "2MB"}) {
        const Context context = MakeContext(1, {{"stage1_buffer_size", bytes}});
        EXPECT_TRUE(layer.Run(context, options).HasSameBits(wanted)) << bytes;
      }
    }
  }
}

// Column blocks of the second phase are 32, 64 or 128 wide, depending on the number of workers.
TEST_P(MoeFfnInvarianceTest, WidthsOfColumnBlocksDoNotChangeBits) {
  const Layer layer(DType::kBf16, 1030, 9);
  const Matrix wanted = layer.Run(MakeContext(1));
  for (const int threads : {2, 3, 5, 9}) {
    EXPECT_TRUE(layer.Run(MakeContext(threads)).HasSameBits(wanted)) << threads;
  }
}

TEST_P(MoeFfnInvarianceTest, ATokenAloneHasTheBitsItHasInTheBatch) {
  const Context context = MakeContext(1);
  for (const DType dtype : kDtypes) {
    Layer layer(dtype);
    const Matrix batch = layer.Run(context);
    for (int64_t token = 0; token < 260; token += 13) {
      const RoutingPlan plan = MakePlan(context, layer.slots.Slice(token, 1), 6);
      Matrix out(dtype, 1, layer.x.columns());
      MoeFfn(context, layer.x.Rows(token, 1), plan, layer.experts.packed, {}, out.view());
      EXPECT_TRUE(out.HasSameBits(0, batch, token)) << Name(dtype) << ", token " << token;
    }
  }
}

TEST_P(MoeFfnInvarianceTest, TheOrderOfChoicesDoesNotChangeBits) {
  const Context context = MakeContext(2);
  Layer layer(DType::kF32);
  const Matrix wanted = layer.Run(context);
  for (size_t slot = 0; slot < layer.slots.ids.size(); slot += 2) {
    std::swap(layer.slots.ids[slot], layer.slots.ids[slot + 1]);
    std::swap(layer.slots.weights[slot], layer.slots.weights[slot + 1]);
  }
  EXPECT_TRUE(layer.Run(context).HasSameBits(wanted));
}

TEST_P(MoeFfnInvarianceTest, FortyRepeatsDoNotChangeBits) {
  const Layer layer(DType::kBf16, 33, 17);
  const Matrix wanted = layer.Run(MakeContext(1));
  for (const int threads : {1, 2, 3, 7}) {
    const Context context = MakeContext(threads);
    for (int repeat = 0; repeat < 10; ++repeat) {
      ASSERT_TRUE(layer.Run(context).HasSameBits(wanted)) << threads << " threads, " << repeat;
    }
  }
}

TEST_P(MoeFfnInvarianceTest, NanAndInfinityPoisonTheirTokenOnly) {
  const Context context = MakeContext(2);
  for (const DType dtype : kDtypes) {
    Layer layer(dtype);
    // The whole row must go: with an empty slot there might be nothing to poison.
    for (const size_t token : {5u, 100u, 259u}) {
      layer.slots.ids[2 * token] = 1;
      layer.slots.ids[2 * token + 1] = 4;
    }
    const Matrix clean = layer.Run(context);
    layer.x.Set(5, 76, kNan);
    layer.x.Set(100, 0, kInfinity);
    layer.x.Set(259, 33, -kInfinity);
    const Matrix out = layer.Run(context);
    for (int64_t token = 0; token < 260; ++token) {
      if (token == 5 || token == 100 || token == 259) {
        for (const double value : out.Row(token)) ASSERT_FALSE(std::isfinite(value));
      } else {
        ASSERT_TRUE(out.HasSameBits(token, clean, token)) << Name(dtype) << ", token " << token;
      }
    }
  }
}

// An infinite activation times a weight is infinite, alone or in a batch: the padding behind an odd
// F, which such a token turns into NaN, must not join in.
TEST_P(MoeFfnInvarianceTest, InfinityStaysInfinityBehindAnOddF) {
  const Context context = MakeContext(1);
  for (const DType dtype : kDtypes) {
    for (const int64_t ffn : {1, 3, 9, 257}) {
      TestExperts experts(context, dtype, 1, 2, ffn, 1);
      experts.gate_up.Fill(1);
      experts.down.Fill(1);
      experts.Pack(context);
      Matrix x(dtype, 40, 2);
      x.Fill(1);
      for (int64_t token = 0; token < 40; ++token) x.Set(token, 0, kInfinity);
      for (const int64_t tokens : {1, 12, 13, 40}) {
        Slots slots{tokens, 1, {}, {}};
        slots.ids.assign(static_cast<size_t>(tokens), 0);
        slots.weights.assign(static_cast<size_t>(tokens), 1);
        Matrix out(dtype, 40, 2);
        MoeFfn(context, x.FirstRows(tokens), MakePlan(context, slots, 1), experts.packed,
               {.activation = Activation::kRelu}, out.FirstRows(tokens));
        EXPECT_EQ(out.At(tokens - 1, 1), kInfinity)
            << Name(dtype) << ", F " << ffn << ", " << tokens << " tokens";
      }
    }
  }
}

TEST_P(MoeFfnInvarianceTest, BrokenExpertsPoisonTheirTokensOnly) {
  const Context context = MakeContext(2);
  Layer layer(DType::kF32);
  const Matrix clean = layer.Run(context);
  layer.experts.gate_up.Set(3 * 2 * 45 + 7, 5, kNan);
  layer.experts.Pack(context);
  const Matrix out = layer.Run(context);
  for (int64_t token = 0; token < 260; ++token) {
    const auto first = static_cast<size_t>(2 * token);
    const bool is_broken = layer.slots.ids[first] == 3 || layer.slots.ids[first + 1] == 3;
    if (is_broken) {
      ASSERT_TRUE(std::isnan(out.At(token, 0)));
    } else {
      ASSERT_TRUE(out.HasSameBits(token, clean, token)) << token;
    }
  }
}

// In kAdd a token without rows keeps its bits; in kOverwrite it becomes zero.
TEST_P(MoeFfnInvarianceTest, TokensWithoutRowsAreKeptOrZeroed) {
  const Context context = MakeContext(2);
  for (const DType dtype : kDtypes) {
    const TestExperts experts(context, dtype, 2, 21, 5, 1);
    const Matrix x = Matrix::Random(dtype, 3, 21, 2);
    const Matrix before = Matrix::Random(dtype, 3, 21, 3);
    const RoutingPlan plan = MakePlan(context, {3, 1, {-1, 1, -1}, {1, 1, 1}}, 2);
    Matrix added = before;
    MoeFfn(context, x.view(), plan, experts.packed, {.output_mode = OutputMode::kAdd},
           added.view());
    EXPECT_TRUE(added.HasSameBits(0, before, 0) && added.HasSameBits(2, before, 2));
    EXPECT_FALSE(added.HasSameBits(1, before, 1));
    Matrix written = before;
    MoeFfn(context, x.view(), plan, experts.packed, {}, written.view());
    EXPECT_EQ(written.Row(0), std::vector<double>(21, 0.0));
    EXPECT_EQ(written.Row(2), std::vector<double>(21, 0.0));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, MoeFfnInvarianceTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(MoeFfnThreadsTest, CallersMayShareAContext) {
  const Layer layer(DType::kF32, 33, 17);
  const Context context = MakeContext(2);
  const Matrix wanted = layer.Run(context);
  std::vector<int> num_wrong(3, 0);
  std::vector<std::thread> callers;
  for (int& wrong : num_wrong) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 10; ++repeat) wrong += !layer.Run(context).HasSameBits(wanted);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(num_wrong, std::vector<int>(3, 0));
}

}  // namespace
}  // namespace opst
