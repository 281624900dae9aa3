// Dequantisation against values computed by ggml's own Python package, bit by bit, and the narrow
// floats against their definition.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace opst {
namespace {

constexpr int64_t kNumBlocks = 4;  // per format, as make_quant_goldens.py writes them

TEST(DequantizeTest, EveryFormatGivesTheBitsOfTheReference) {
  std::ifstream stream(std::string(OPST_SOURCE_DIR) + "/src/tensor/testdata/quant_blocks.bin",
                       std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  size_t at = 0;
  for (int t = 0; t < kNumQuantTypes; ++t) {
    const auto type = static_cast<QuantType>(t);
    const BlockShape shape = BlockShapeOf(type);
    const size_t block_bytes = kNumBlocks * shape.bytes;
    std::vector<float> expected(static_cast<size_t>(kNumBlocks * shape.values));
    ASSERT_LE(at + block_bytes + expected.size() * sizeof(float), content.size());
    // One byte further than the file has them: any alignment must do.
    const std::string moved = "x" + content.substr(at, block_bytes);
    std::memcpy(expected.data(), content.data() + at + block_bytes,
                expected.size() * sizeof(float));
    std::vector<float> values(expected.size());
    Dequantize(type, reinterpret_cast<const std::byte*>(moved.data() + 1), kNumBlocks,
               values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], expected[i]) << Name(type) << " value " << i;
    }
    at += block_bytes + expected.size() * sizeof(float);
  }
  EXPECT_EQ(at, content.size());
}

TEST(DequantizeTest, AnyBitsAreAValue) {
  // No bit pattern may read outside its block or trap; checked by the sanitizers.
  for (int t = 0; t < kNumQuantTypes; ++t) {
    const auto type = static_cast<QuantType>(t);
    const BlockShape shape = BlockShapeOf(type);
    std::vector<float> values(static_cast<size_t>(shape.values));
    for (int fill = 0; fill < 256; ++fill) {
      const std::vector<std::byte> block(shape.bytes, std::byte(fill));
      Dequantize(type, block.data(), 1, values.data());
    }
  }
}

TEST(NarrowFloatTest, Fp8E4m3FollowsItsDefinition) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = Fp8E4m3ToFloat(static_cast<uint8_t>(bits));
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    if (exponent == 15 && mantissa == 7) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const double fraction = exponent == 0 ? mantissa / 8.0 : 1 + mantissa / 8.0;
    const double magnitude = std::ldexp(fraction, (exponent == 0 ? 1 : exponent) - 7);
    EXPECT_EQ(value, bits < 128 ? magnitude : -magnitude) << bits;
  }
  EXPECT_EQ(Fp8E4m3ToFloat(0x7E), 448.0f);
}

TEST(NarrowFloatTest, E8m0IsAPowerOfTwo) {
  for (int bits = 0; bits < 255; ++bits) {
    EXPECT_EQ(E8m0ToFloat(static_cast<uint8_t>(bits)), std::ldexp(1.0f, bits - 127)) << bits;
  }
  EXPECT_TRUE(std::isnan(E8m0ToFloat(255)));
}

TEST(NarrowFloatTest, Fp8E5m2IsTheUpperHalfOfAHalf) {
  EXPECT_EQ(Fp8E5m2ToFloat(0x3C), 1.0f);
  EXPECT_EQ(Fp8E5m2ToFloat(0xC1), -2.5f);
  EXPECT_TRUE(std::isinf(Fp8E5m2ToFloat(0x7C)));
}

}  // namespace
}  // namespace opst
