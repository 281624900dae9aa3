// Values of quantised blocks and narrow floats as f32.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/dequantize.h"

#include <bit>
#include <cstring>

namespace opst {
namespace {

// Four bits of value i where byte i holds value i and value i + 16.
int Nibble(const uint8_t* nibbles, int i) {
  return i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
}

int Bit(const uint8_t* bits, int i) { return bits[i / 8] >> (i % 8) & 1; }

void Expand(const BlockQ8_0& block, float* out) {
  const float scale = ToFloat(block.scale);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = scale * static_cast<float>(block.values[i]);
}

void Expand(const BlockQ4_0& block, float* out) {
  const float scale = ToFloat(block.scale);
  for (int i = 0; i < kSmallBlock; ++i) {
    out[i] = scale * static_cast<float>(Nibble(block.nibbles, i) - 8);
  }
}

void Expand(const BlockQ4_1& block, float* out) {
  const float scale = ToFloat(block.scale);
  const float minimum = ToFloat(block.minimum);
  for (int i = 0; i < kSmallBlock; ++i) {
    out[i] = scale * static_cast<float>(Nibble(block.nibbles, i)) + minimum;
  }
}

void Expand(const BlockQ5_0& block, float* out) {
  const float scale = ToFloat(block.scale);
  for (int i = 0; i < kSmallBlock; ++i) {
    const int q = Nibble(block.nibbles, i) | Bit(block.high_bits, i) << 4;
    out[i] = scale * static_cast<float>(q - 16);
  }
}

void Expand(const BlockQ5_1& block, float* out) {
  const float scale = ToFloat(block.scale);
  const float minimum = ToFloat(block.minimum);
  for (int i = 0; i < kSmallBlock; ++i) {
    const int q = Nibble(block.nibbles, i) | Bit(block.high_bits, i) << 4;
    out[i] = scale * static_cast<float>(q) + minimum;
  }
}

void Expand(const BlockIq4Nl& block, float* out) {
  const float scale = ToFloat(block.scale);
  for (int i = 0; i < kSmallBlock; ++i) {
    out[i] = scale * static_cast<float>(kIq4NlValues[Nibble(block.nibbles, i)]);
  }
}

void Expand(const BlockMxfp4& block, float* out) {
  // ggml reads 255 as 2^128 / 2, not as NaN; halving first keeps it finite.
  const float half = block.exponent == 255 ? 0x1p127f : E8m0ToFloat(block.exponent) * 0.5f;
  for (int i = 0; i < kSmallBlock; ++i) {
    out[i] = half * (2.0f * kFp4Values[Nibble(block.nibbles, i)]);
  }
}

// Two bits of value v: a run of 128 values shares 32 bytes, 32 values each pair of bits.
int Pair(const uint8_t* pairs, int v) {
  return pairs[v / 128 * 32 + v % 32] >> (v % 128 / 32 * 2) & 3;
}

// Four bits of value v: a run of 64 values shares 32 bytes, the first 32 in the low halves.
int LongNibble(const uint8_t* nibbles, int v) {
  return nibbles[v / 64 * 32 + v % 32] >> (v % 64 / 32 * 4) & 15;
}

void Expand(const BlockQ2K& block, float* out) {
  const float scale = ToFloat(block.scale);
  const float minimum = ToFloat(block.minimum);
  for (int v = 0; v < kSuperBlock; ++v) {
    const uint8_t group = block.scales[v / 16];
    const float group_scale = scale * static_cast<float>(group & 15);
    const float group_minimum = minimum * static_cast<float>(group >> 4);
    out[v] = group_scale * static_cast<float>(Pair(block.pairs, v)) - group_minimum;
  }
}

// Scale of 6 bits: the low four in bytes 0 … 7 like nibbles, the high two in bytes 8 … 11.
int Q3Scale(const uint8_t* scales, int group) {
  const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
  return low | (scales[8 + group % 4] >> (group / 4 * 2) & 3) << 4;
}

void Expand(const BlockQ3K& block, float* out) {
  const float scale = ToFloat(block.scale);
  for (int v = 0; v < kSuperBlock; ++v) {
    const float group_scale = scale * static_cast<float>(Q3Scale(block.scales, v / 16) - 32);
    const int has_high = block.high_bits[v % 32] >> (v / 32) & 1;
    out[v] = group_scale * static_cast<float>(Pair(block.pairs, v) - (has_high != 0 ? 0 : 4));
  }
}

struct ScaleAndMinimum {
  float scale;
  float minimum;
};

// Of group g of 32 values. Groups 0 … 3 use the low 6 bits of a byte; the others find four bits in
// bytes 8 … 11 and their upper two above those of the first groups.
ScaleAndMinimum GroupOf(const uint8_t* scales, int g, float scale, float minimum) {
  int s = scales[g % 4] & 63;
  int m = scales[g % 4 + 4] & 63;
  if (g >= 4) {
    s = (scales[g + 4] & 15) | scales[g - 4] >> 6 << 4;
    m = scales[g + 4] >> 4 | scales[g] >> 6 << 4;
  }
  return {scale * static_cast<float>(s), minimum * static_cast<float>(m)};
}

void Expand(const BlockQ4K& block, float* out) {
  for (int v = 0; v < kSuperBlock; ++v) {
    const auto group = GroupOf(block.scales, v / 32, ToFloat(block.scale), ToFloat(block.minimum));
    out[v] = group.scale * static_cast<float>(LongNibble(block.nibbles, v)) - group.minimum;
  }
}

void Expand(const BlockQ5K& block, float* out) {
  for (int v = 0; v < kSuperBlock; ++v) {
    const auto group = GroupOf(block.scales, v / 32, ToFloat(block.scale), ToFloat(block.minimum));
    const int high = block.high_bits[v % 32] >> (v / 32) & 1;
    const int q = LongNibble(block.nibbles, v) | high << 4;
    out[v] = group.scale * static_cast<float>(q) - group.minimum;
  }
}

void Expand(const BlockQ6K& block, float* out) {
  const float scale = ToFloat(block.scale);
  for (int v = 0; v < kSuperBlock; ++v) {
    // A run of 128 values shares 64 bytes of nibbles, the first 64 in the low halves.
    const int low = block.nibbles[v / 128 * 64 + v % 64] >> (v % 128 / 64 * 4) & 15;
    const int q = low | Pair(block.pairs, v) << 4;
    out[v] = scale * static_cast<float>(block.scales[v / 16]) * static_cast<float>(q - 32);
  }
}

template <typename Block>
void ExpandAll(const std::byte* blocks, int64_t num_blocks, int64_t values, float* out) {
  for (int64_t b = 0; b < num_blocks; ++b) {
    Block block;
    std::memcpy(&block, blocks + static_cast<size_t>(b) * sizeof(Block), sizeof(Block));
    Expand(block, out + b * values);
  }
}

}  // namespace

BlockShape BlockShapeOf(QuantType type) {
  switch (type) {
    case QuantType::kQ8_0:
      return {kSmallBlock, sizeof(BlockQ8_0)};
    case QuantType::kQ4_0:
      return {kSmallBlock, sizeof(BlockQ4_0)};
    case QuantType::kQ4_1:
      return {kSmallBlock, sizeof(BlockQ4_1)};
    case QuantType::kQ5_0:
      return {kSmallBlock, sizeof(BlockQ5_0)};
    case QuantType::kQ5_1:
      return {kSmallBlock, sizeof(BlockQ5_1)};
    case QuantType::kQ2K:
      return {kSuperBlock, sizeof(BlockQ2K)};
    case QuantType::kQ3K:
      return {kSuperBlock, sizeof(BlockQ3K)};
    case QuantType::kQ4K:
      return {kSuperBlock, sizeof(BlockQ4K)};
    case QuantType::kQ5K:
      return {kSuperBlock, sizeof(BlockQ5K)};
    case QuantType::kQ6K:
      return {kSuperBlock, sizeof(BlockQ6K)};
    case QuantType::kIq4Nl:
      return {kSmallBlock, sizeof(BlockIq4Nl)};
    case QuantType::kMxfp4:
      return {kSmallBlock, sizeof(BlockMxfp4)};
  }
  return {1, 1};
}

std::string_view Name(QuantType type) {
  constexpr std::string_view kNames[kNumQuantTypes] = {"Q8_0", "Q4_0", "Q4_1",   "Q5_0",
                                                       "Q5_1", "Q2_K", "Q3_K",   "Q4_K",
                                                       "Q5_K", "Q6_K", "IQ4_NL", "MXFP4"};
  return kNames[static_cast<size_t>(type)];
}

void Dequantize(QuantType type, const std::byte* blocks, int64_t num_blocks, float* out) {
  const auto expand = [&]<typename Block>(Block) {
    ExpandAll<Block>(blocks, num_blocks, BlockShapeOf(type).values, out);
  };
  switch (type) {
    case QuantType::kQ8_0:
      return expand(BlockQ8_0{});
    case QuantType::kQ4_0:
      return expand(BlockQ4_0{});
    case QuantType::kQ4_1:
      return expand(BlockQ4_1{});
    case QuantType::kQ5_0:
      return expand(BlockQ5_0{});
    case QuantType::kQ5_1:
      return expand(BlockQ5_1{});
    case QuantType::kQ2K:
      return expand(BlockQ2K{});
    case QuantType::kQ3K:
      return expand(BlockQ3K{});
    case QuantType::kQ4K:
      return expand(BlockQ4K{});
    case QuantType::kQ5K:
      return expand(BlockQ5K{});
    case QuantType::kQ6K:
      return expand(BlockQ6K{});
    case QuantType::kIq4Nl:
      return expand(BlockIq4Nl{});
    case QuantType::kMxfp4:
      return expand(BlockMxfp4{});
  }
}

float Fp8E4m3ToFloat(uint8_t bits) {
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(0x7FC00000u);
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-9f;
  const auto magnitude = static_cast<uint32_t>((exponent + 120) << 23 | mantissa << 20);
  return sign * std::bit_cast<float>(magnitude);
}

float Fp8E5m2ToFloat(uint8_t bits) { return ToFloat(F16{static_cast<uint16_t>(bits << 8)}); }

float E8m0ToFloat(uint8_t bits) {
  if (bits == 255) return std::bit_cast<float>(0x7FC00000u);
  if (bits == 0) return 0x1p-127f;  // a subnormal f32
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 23);
}

}  // namespace opst
