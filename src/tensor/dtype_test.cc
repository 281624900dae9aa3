// Tests of the scalar conversions of f16 and bf16 against formulas written independently of them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A small float format by its definition: sign, exponent and mantissa fields.
struct FloatFormat {
  int mantissa_bits;
  int exponent_bits;
};
constexpr FloatFormat kHalf{10, 5};
constexpr FloatFormat kBrain{7, 8};

bool IsNanPattern(uint16_t bits, FloatFormat format) {
  const int magnitude = bits & 0x7FFF;
  return magnitude > ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
}

// The value of a pattern, infinity being read as the next power of two, which is where rounding to
// it begins.
double UnboundedValue(uint16_t bits, FloatFormat format) {
  const int exponent = (bits & 0x7FFF) >> format.mantissa_bits;
  const double fraction =
      std::ldexp(bits & ((1 << format.mantissa_bits) - 1), -format.mantissa_bits);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double Value(uint16_t bits, FloatFormat format) {
  const int infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
  if ((bits & 0x7FFF) == infinity) return (bits & 0x8000) != 0 ? -kInfinity : kInfinity;
  return UnboundedValue(bits, format);
}

uint16_t Round(float value, FloatFormat format) {
  return format.exponent_bits == 5 ? ToF16(value).bits : ToBf16(value).bits;
}

float Widen(uint16_t bits, FloatFormat format) {
  return format.exponent_bits == 5 ? ToFloat(F16{bits}) : ToFloat(Bf16{bits});
}

class SmallFloatTest : public testing::TestWithParam<FloatFormat> {};

TEST_P(SmallFloatTest, EveryPatternWidensToItsDefinition) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    const float widened = Widen(bits, GetParam());
    if (IsNanPattern(bits, GetParam())) {
      ASSERT_TRUE(std::isnan(widened)) << pattern;
    } else {
      ASSERT_EQ(static_cast<double>(widened), Value(bits, GetParam())) << pattern;
    }
    ASSERT_EQ(std::signbit(widened), (pattern & 0x8000) != 0) << pattern;
  }
}

TEST_P(SmallFloatTest, EveryPatternSurvivesTheRoundTrip) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    const uint16_t again = Round(Widen(bits, GetParam()), GetParam());
    if (IsNanPattern(bits, GetParam())) {
      ASSERT_TRUE(IsNanPattern(again, GetParam())) << pattern;
      ASSERT_EQ(again & 0x8000, bits & 0x8000) << pattern;
    } else {
      ASSERT_EQ(again, bits) << pattern;
    }
  }
}

// Between every two neighbours: the middle goes to the even one, the two floats beside the middle
// to the nearer one. The last finite value and infinity are neighbours too.
TEST_P(SmallFloatTest, MiddlesGoToTheEvenNeighbour) {
  const int infinity = ((1 << GetParam().exponent_bits) - 1) << GetParam().mantissa_bits;
  for (int sign = 0; sign <= 0x8000; sign += 0x8000) {
    for (int magnitude = 0; magnitude < infinity; ++magnitude) {
      const auto low = static_cast<uint16_t>(sign | magnitude);
      const auto high = static_cast<uint16_t>(low + 1);
      const double middle =
          (UnboundedValue(low, GetParam()) + UnboundedValue(high, GetParam())) / 2;
      const auto tie = static_cast<float>(middle);
      ASSERT_EQ(static_cast<double>(tie), middle);
      ASSERT_EQ(Round(tie, GetParam()), (low & 1) == 0 ? low : high) << magnitude;
      ASSERT_EQ(Round(std::nextafter(tie, 0.0f), GetParam()), low) << magnitude;
      const float away = std::nextafter(tie, sign == 0 ? kInfinity : -kInfinity);
      ASSERT_EQ(Round(away, GetParam()), high) << magnitude;
    }
  }
}

TEST_P(SmallFloatTest, RandomFloatsGoToTheNearestValue) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const uint16_t bits = Round(value, GetParam());
    if (std::isnan(value)) {
      ASSERT_TRUE(IsNanPattern(bits, GetParam()));
      continue;
    }
    ASSERT_FALSE(IsNanPattern(bits, GetParam())) << value;
    if (std::isinf(value)) {
      ASSERT_EQ(static_cast<double>(Widen(bits, GetParam())), value);
      continue;
    }
    const double error = std::abs(UnboundedValue(bits, GetParam()) - value);
    const bool is_infinite = Value(bits, GetParam()) != UnboundedValue(bits, GetParam());
    for (const int step : {-1, 1}) {
      const int neighbour = bits + step;
      const bool leaves_sign = ((neighbour ^ bits) & 0x8000) != 0;
      if (neighbour < 0 || neighbour > 0xFFFF || leaves_sign || (is_infinite && step > 0)) continue;
      const double other = UnboundedValue(static_cast<uint16_t>(neighbour), GetParam());
      ASSERT_LE(error, std::abs(other - value)) << value;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloatTest, testing::Values(kHalf, kBrain),
                         [](const auto& test) {
                           return test.param.exponent_bits == 5 ? "F16" : "Bf16";
                         });

TEST(DTypeTest, ExtremeFloatsOverflowToInfinityOrUnderflowToZero) {
  EXPECT_EQ(ToF16(65519.99f).bits, 0x7BFF);
  EXPECT_EQ(ToF16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(ToF16(-std::numeric_limits<float>::max()).bits, 0xFC00);
  EXPECT_EQ(ToF16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(ToF16(std::nextafter(0x1p-25f, 1.0f)).bits, 0x0001);
  EXPECT_EQ(ToF16(-0.0f).bits, 0x8000);
  EXPECT_EQ(ToF16(-std::numeric_limits<float>::denorm_min()).bits, 0x8000);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
  EXPECT_EQ(ToBf16(-0.0f).bits, 0x8000);
}

// A NaN whose payload stands in the low bits only must not become an infinity.
TEST(DTypeTest, EveryNanStaysNan) {
  for (const uint32_t bits : {0x7F800001u, 0x7FBFFFFFu, 0x7FC00000u, 0xFF800001u, 0xFFFFFFFFu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(IsNanPattern(ToF16(nan).bits, kHalf)) << bits;
    EXPECT_TRUE(IsNanPattern(ToBf16(nan).bits, kBrain)) << bits;
    EXPECT_EQ(ToF16(nan).bits >> 15, bits >> 31);
    EXPECT_EQ(ToBf16(nan).bits >> 15, bits >> 31);
  }
}

TEST(DTypeTest, SizesAndNamesOfAllTypes) {
  const struct {
    DType dtype;
    size_t bytes;
    std::string_view name;
  } rows[] = {{DType::kF32, 4, "f32"},  {DType::kF16, 2, "f16"}, {DType::kBf16, 2, "bf16"},
              {DType::kF64, 8, "f64"},  {DType::kI8, 1, "i8"},   {DType::kU8, 1, "u8"},
              {DType::kI16, 2, "i16"},  {DType::kI32, 4, "i32"}, {DType::kI64, 8, "i64"},
              {DType::kBool, 1, "bool"}};
  for (const auto& row : rows) {
    EXPECT_EQ(ByteSize(row.dtype), row.bytes);
    EXPECT_EQ(Name(row.dtype), row.name);
  }
  EXPECT_TRUE(IsModelFloat(DType::kF32) && IsModelFloat(DType::kBf16) && IsModelFloat(DType::kF16));
  EXPECT_FALSE(IsModelFloat(DType::kF64) || IsModelFloat(DType::kI8));
}

}  // namespace
}  // namespace opst
