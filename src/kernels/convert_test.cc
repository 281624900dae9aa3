// Tests that vector conversions between element types give the bits of the scalar ones, everywhere.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/rows.h"
#include "kernels/testing/each_isa.h"

namespace opst {
namespace {

constexpr DType kHalves[] = {DType::kBf16, DType::kF16};
// A multiple of the widest vector and a tail, so that both loops meet every pattern.
constexpr size_t kSpan = 64 + 13;

float Widen(DType dtype, uint16_t bits) {
  return dtype == DType::kBf16 ? ToFloat(Bf16{bits}) : ToFloat(F16{bits});
}

uint16_t Narrow(DType dtype, float value) {
  return dtype == DType::kBf16 ? ToBf16(value).bits : ToF16(value).bits;
}

class ConvertTest : public EachIsaTest {};

TEST_P(ConvertTest, EveryHalfWidensToTheScalarBits) {
  for (const DType dtype : kHalves) {
    for (uint32_t first = 0; first < 0x10000; first += 64) {
      std::vector<uint16_t> source(kSpan);
      for (size_t i = 0; i < kSpan; ++i) source[i] = static_cast<uint16_t>(first + i);
      std::vector<float> widened(kSpan);
      ConvertToFloat(dtype, source.data(), kSpan, widened.data());
      for (size_t i = 0; i < kSpan; ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(widened[i]),
                  std::bit_cast<uint32_t>(Widen(dtype, source[i])))
            << Name(dtype) << " pattern " << source[i] << " at " << i;
      }
    }
  }
}

void ExpectScalarBits(const std::vector<float>& values) {
  for (const DType dtype : kHalves) {
    std::vector<uint16_t> narrow(values.size());
    ConvertFromFloat(values.data(), values.size(), dtype, narrow.data());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(narrow[i], Narrow(dtype, values[i]))
          << Name(dtype) << " of " << std::bit_cast<uint32_t>(values[i]) << " at " << i;
    }
  }
}

// Every value that a half can have, every middle between two of them, and the floats beside those.
TEST_P(ConvertTest, HalvesAndTheirMiddlesNarrowToTheScalarBits) {
  for (const DType dtype : kHalves) {
    const uint32_t half_step = dtype == DType::kBf16 ? 0x8000u : 0x1000u;
    for (uint32_t first = 0; first < 0x10000; first += 64) {
      std::vector<float> values;
      for (uint32_t i = 0; i < 64; ++i) {
        const uint32_t bits =
            std::bit_cast<uint32_t>(Widen(dtype, static_cast<uint16_t>(first + i)));
        for (const uint32_t offset : {0u, half_step - 1, half_step, half_step + 1}) {
          values.push_back(std::bit_cast<float>(bits + offset));
        }
      }
      values.push_back(1.0f);  // a tail
      ExpectScalarBits(values);
    }
  }
}

// The middles of f16 denormals stand elsewhere than those of normal values.
TEST_P(ConvertTest, MiddlesOfDenormalHalvesNarrowToTheScalarBits) {
  std::vector<float> values;
  for (int units = 0; units <= 2048; ++units) {
    const float value = std::ldexp(static_cast<float>(units), -25);
    values.insert(values.end(),
                  {value, std::nextafter(value, 1.0f), std::nextafter(value, -1.0f), -value});
  }
  ExpectScalarBits(values);
}

TEST_P(ConvertTest, RandomFloatsNarrowToTheScalarBits) {
  std::mt19937 random(7);
  std::vector<float> values(100'003);
  for (float& value : values) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
  ExpectScalarBits(values);
}

TEST_P(ConvertTest, ExtremeFloatsNarrowToTheScalarBits) {
  std::vector<float> values;
  for (const float value : {0.0f, 65504.0f, 65519.99f, 65520.0f, 65535.0f, 65536.0f, 131008.0f,
                            1e30f, 3.3895314e38f, 3.4e38f, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::denorm_min()}) {
    values.insert(values.end(), {value, -value});
  }
  for (const uint32_t nan : {0x7F800001u, 0x7FBFFFFFu, 0x7FC12345u, 0xFF800001u, 0xFFFFFFFFu}) {
    values.push_back(std::bit_cast<float>(nan));
  }
  while (values.size() < 64) values.push_back(values[values.size() - 29]);
  ExpectScalarBits(values);
}

// Any length, any alignment; nothing behind the end is written.
TEST_P(ConvertTest, LengthsAndAlignmentsDoNotMatter) {
  constexpr uint16_t kGuard = 0x5A5A;
  for (size_t n = 0; n <= 70; ++n) {
    for (size_t shift = 0; shift < 3; ++shift) {
      for (const DType dtype : kHalves) {
        std::vector<float> values(n + shift);
        for (size_t i = 0; i < n; ++i) values[shift + i] = static_cast<float>(i) - 20.3f;
        std::vector<uint16_t> narrow(n + shift + 4, kGuard);
        ConvertFromFloat(values.data() + shift, n, dtype, narrow.data() + shift);
        std::vector<float> widened(n + shift + 4, -1.0f);
        ConvertToFloat(dtype, narrow.data() + shift, n, widened.data() + shift);
        for (size_t i = 0; i < n; ++i) {
          ASSERT_EQ(narrow[shift + i], Narrow(dtype, values[shift + i]));
          ASSERT_EQ(widened[shift + i], Widen(dtype, narrow[shift + i]));
        }
        for (size_t i = n + shift; i < n + shift + 4; ++i) {
          ASSERT_EQ(narrow[i], kGuard) << n;
          ASSERT_EQ(widened[i], -1.0f) << n;
        }
      }
    }
  }
}

TEST_P(ConvertTest, FloatsAreCopiedBitForBit) {
  std::vector<uint32_t> bits = {0x7F800001u, 0x80000000u, 0x00000001u, 0xFFC00000u, 0x3F800000u};
  std::vector<uint32_t> copy(bits.size());
  ConvertToFloat(DType::kF32, bits.data(), bits.size(), reinterpret_cast<float*>(copy.data()));
  EXPECT_EQ(copy, bits);
  copy.assign(bits.size(), 0);
  ConvertFromFloat(reinterpret_cast<float*>(bits.data()), bits.size(), DType::kF32, copy.data());
  EXPECT_EQ(copy, bits);
}

INSTANTIATE_TEST_SUITE_P(Isa, ConvertTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
