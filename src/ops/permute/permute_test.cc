// Tests of moving token rows into expert order.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/permute.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <vector>

#include "base/testing/errors.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/plans.h"

namespace opst {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};

class PermuteTest : public testing::Test {
 protected:
  // Runs Permute and compares every row with the token it must come from.
  void ExpectPermuted(const Context& context, const Matrix& x, const RoutingPlan& plan) {
    Matrix out(x.dtype(), plan.num_rows(), x.columns(), 3);
    Permute(context, x.view(), plan, out.view());
    Matrix zeros(x.dtype(), 1, x.columns());
    zeros.Fill(0);
    for (int64_t row = 0; row < plan.num_rows(); ++row) {
      const int32_t slot = plan.row_to_slot[static_cast<size_t>(row)];
      ASSERT_TRUE(slot < 0 ? out.HasSameBits(row, zeros, 0)
                           : out.HasSameBits(row, x, slot / plan.top_k))
          << "row " << row;
    }
    EXPECT_TRUE(out.HasUntouchedGaps());
  }

  const Context context_ = MakeContext(2);
};

TEST_F(PermuteTest, EveryRowIsACopyOfItsToken) {
  for (const DType dtype : kDtypes) {
    for (const int64_t hidden : {1, 7, 100, 255, 257, 300}) {
      for (const int64_t tokens : {1, 2, 17, 130}) {
        const Matrix x = Matrix::Random(dtype, tokens, hidden, 1, 1, hidden % 3);
        const Slots slots = RandomSlots(tokens, 8, 3, 2, {.empty_share = 0.2, .skew = 1});
        ExpectPermuted(context_, x, MakePlan(context_, slots, 8));
        ExpectPermuted(context_, x, MakePlan(context_, slots, 8, {.capacity_factor = 0.5}));
        ExpectPermuted(
            context_, x,
            MakePlan(context_, slots, 8, {.capacity_factor = 2, .pads_to_capacity = true}));
      }
    }
  }
}

TEST_F(PermuteTest, NanAndInfinityKeepTheirBits) {
  Matrix x = Matrix::Random(DType::kF32, 4, 5, 1);
  x.Set(1, 2, std::numeric_limits<double>::quiet_NaN());
  x.Set(3, 4, -std::numeric_limits<double>::infinity());
  ExpectPermuted(context_, x, MakePlan(context_, RandomSlots(4, 3, 2, 1), 3));
}

TEST_F(PermuteTest, NoTokensAndNoRowsAreNoWork) {
  const RoutingPlan empty = MakePlan(context_, Slots{0, 2, {}, {}}, 4);
  ExpectPermuted(context_, Matrix(DType::kF32, 0, 5), empty);
  const RoutingPlan unused = MakePlan(context_, Slots{2, 1, {-1, -1}, {1, 1}}, 4);
  ExpectPermuted(context_, Matrix::Random(DType::kF32, 2, 5, 1), unused);
}

// Offsets of elements beyond 2^31 and of bytes beyond 2^32, in memory that is hardly touched.
TEST_F(PermuteTest, RowsBeyond32BitOffsetsArrive) {
  constexpr size_t kBytes = size_t{5} << 30;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "5 GB of address space are not available";
  const int64_t stride = (int64_t{1} << 30) + 64;
  const TensorView far(memory, DType::kBf16, Shape{3, 40}, stride);
  Matrix x = Matrix::Random(DType::kBf16, 3, 40, 1);
  const RoutingPlan plan = MakePlan(context_, Slots{3, 1, {0, 0, 0}, {1, 1, 1}}, 1);
  Permute(context_, x.view(), plan, far);
  Matrix back(DType::kBf16, 3, 40);
  Permute(context_, far, plan, back.view());
  EXPECT_TRUE(back.HasSameBits(x));
  EXPECT_EQ(std::memcmp(static_cast<std::byte*>(memory) + 4 * stride, x.view().row(2), 80), 0);
  munmap(memory, kBytes);
}

TEST_F(PermuteTest, WrongShapesAreNamed) {
  const RoutingPlan plan = MakePlan(context_, RandomSlots(4, 3, 2, 1), 3);
  Matrix x(DType::kF32, 4, 5);
  Matrix out(DType::kF32, 8, 5);
  const auto reject = [&](ConstTensorView input, TensorView output) {
    return Rejection([&] { Permute(context_, input, plan, output); });
  };
  EXPECT_EQ(
      reject(Matrix(DType::kF32, 3, 5).view(), out.view()),
      "[permute] input must be [T,H] f32, bf16 or f16 of the plan's tokens; got [3,5] f32 for "
      "4 tokens");
  const std::vector<int32_t> integers(20);
  EXPECT_EQ(
      reject(ConstTensorView(integers.data(), Shape{4, 5}), out.view()),
      "[permute] input must be [T,H] f32, bf16 or f16 of the plan's tokens; got [4,5] i32 for "
      "4 tokens");
  EXPECT_EQ(reject(Matrix(DType::kF32, 4, 0).view(), Matrix(DType::kF32, 8, 0).view()),
            "[permute] input dim 1 (H) must be positive; got [4,0] f32");
  EXPECT_EQ(
      reject(x.view(), Matrix(DType::kF32, 7, 5).view()),
      "[permute] output must be [R,H] of the input's dtype; got [7,5] f32 for 8 rows of [4,5] "
      "f32");
  EXPECT_EQ(reject(x.view(), Matrix(DType::kBf16, 8, 5).view()),
            "[permute] output must be [R,H] of the input's dtype; got [8,5] bf16 for 8 rows of "
            "[4,5] f32");
}

}  // namespace
}  // namespace opst
