// Tests of rows that become int8 on their way into expert order: bound, scales, NaN, padding.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/testing/errors.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/plans.h"
#include "opst/ops/permute.h"

namespace opst {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Quantized {
  std::vector<int8_t> values;  // [R,H]
  std::vector<float> scales;   // [R]
};

Quantized Quantize(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                   const QuantizedPermuteOptions& options) {
  Quantized out{std::vector<int8_t>(static_cast<size_t>(plan.num_rows() * x.dim(1)), 99),
                std::vector<float>(static_cast<size_t>(plan.num_rows()), 99)};
  const bool is_dynamic = options.quantization == RowQuantization::kDynamic;
  PermuteQuantized(
      context, x, plan, options,
      TensorView(out.values.data(), DType::kI8, Shape{plan.num_rows(), x.dim(1)}),
      is_dynamic ? TensorView(out.scales.data(), Shape{plan.num_rows()}) : TensorView());
  return out;
}

class PermuteQuantizedTest : public EachIsaTest {
 protected:
  const Context context_ = MakeContext(2);
};

TEST_P(PermuteQuantizedTest, DynamicRowsAreWithinTheirBound) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const DType dtype = std::vector{DType::kF32, DType::kBf16, DType::kF16}[seed % 3];
    const int64_t hidden = 1 + static_cast<int64_t>(seed % 70);
    const int64_t experts = 1 + static_cast<int64_t>(seed % 5);
    const Slots slots = RandomSlots(1 + seed % 30, experts, 1, seed, {.empty_share = 0.1});
    const RoutingPlan plan =
        MakePlan(context_, slots, experts, {.capacity_factor = 2, .pads_to_capacity = true});
    const Matrix x = Matrix::Random(dtype, plan.num_tokens, hidden, seed, 3, 1);
    const int64_t smooth_rows = seed % 2 == 0 ? experts : 1;
    const Matrix smooth = Matrix::Random(DType::kF32, smooth_rows, hidden, seed + 1);
    const bool is_smooth = seed % 4 < 3;
    const Quantized out = Quantize(context_, x.view(), plan,
                                   {.smooth = is_smooth ? smooth.view() : ConstTensorView()});
    for (int64_t row = 0; row < plan.num_rows(); ++row) {
      const int32_t slot = plan.row_to_slot[static_cast<size_t>(row)];
      const float scale = out.scales[static_cast<size_t>(row)];
      double most = 0;
      for (int64_t h = 0; h < hidden; ++h) {
        const double factor =
            !is_smooth || slot < 0
                ? 1
                : smooth.At(smooth_rows == 1 ? 0 : plan.expert_ids[static_cast<size_t>(slot)], h);
        const double value = slot < 0 ? 0 : static_cast<float>(x.At(slot / plan.top_k, h) * factor);
        const double q = out.values[static_cast<size_t>(row * hidden + h)];
        most = std::max(most, std::abs(value));
        ASSERT_LE(std::abs(q * scale - value), scale * (0.5 + 0x1p-15)) << row << "," << h;
      }
      ASSERT_EQ(scale, static_cast<float>(most) / 127.0f);
    }
  }
}

TEST_P(PermuteQuantizedTest, StaticRowsRoundToEvenAndSaturate) {
  Matrix x(DType::kF32, 1, 9);
  const double values[] = {0.5, 1.5, 2.5, -0.5, -1.5, 1000, -1000, kNan, 3.2};
  for (int64_t h = 0; h < 9; ++h) x.Set(0, h, values[h]);
  const RoutingPlan plan = MakePlan(context_, Slots{1, 1, {0}, {1}}, 1);
  const Quantized plain =
      Quantize(context_, x.view(), plan, {.quantization = RowQuantization::kStatic});
  EXPECT_EQ(plain.values, (std::vector<int8_t>{0, 2, 2, 0, -2, 127, -128, 0, 3}));
  const Quantized scaled =
      Quantize(context_, x.view(), plan,
               {.quantization = RowQuantization::kStatic, .scale = 10, .offset = -3});
  EXPECT_EQ(scaled.values, (std::vector<int8_t>{2, 12, 22, -8, -18, 127, -128, 0, 29}));
}

TEST_P(PermuteQuantizedTest, RowsWithoutAScaleStayRecognisable) {
  Matrix x(DType::kF32, 4, 3);
  x.Fill(1);
  x.Set(0, 1, kNan);
  x.Set(1, 1, -kInfinity);
  for (int64_t h = 0; h < 3; ++h) x.Set(2, h, 0);
  const RoutingPlan plan = MakePlan(context_, Slots{4, 1, {0, 0, 0, 0}, {1, 1, 1, 1}}, 1);
  const Quantized out = Quantize(context_, x.view(), plan, {});
  EXPECT_TRUE(std::isnan(out.scales[0]));
  EXPECT_TRUE(std::isnan(out.scales[1]));
  EXPECT_EQ(out.scales[2], 0);
  EXPECT_EQ(out.scales[3], 1.0f / 127.0f);
  EXPECT_EQ(out.values, (std::vector<int8_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 127, 127, 127}));
}

INSTANTIATE_TEST_SUITE_P(Isa, PermuteQuantizedTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(PermuteQuantizedErrorsTest, WrongArgumentsAreNamed) {
  const Context context = MakeContext(1);
  const Matrix x = Matrix::Random(DType::kF32, 4, 5, 1);
  const RoutingPlan plan = MakePlan(context, RandomSlots(4, 3, 2, 1), 3);
  const auto reject = [&](const QuantizedPermuteOptions& options) {
    return Rejection([&] { Quantize(context, x.view(), plan, options); });
  };
  EXPECT_EQ(reject({.quantization = RowQuantization::kStatic, .scale = static_cast<float>(kNan)}),
            "[permute_quantized] scale and offset must be finite; got nan and 0");
  const Matrix smooth = Matrix::Random(DType::kF32, 2, 5, 1);
  EXPECT_EQ(reject({.smooth = smooth.view()}),
            "[permute_quantized] smooth must be [E,H] or [1,H] f32, or absent; got [2,5] f32");
  EXPECT_EQ(Rejection([&] {
              Matrix out(DType::kF32, 8, 5);
              PermuteQuantized(context, x.view(), plan, {}, out.view(), {});
            }),
            "[permute_quantized] output must be [R,H] i8; got [8,5] f32 for 8 rows of [4,5] f32");
}

}  // namespace
}  // namespace opst
