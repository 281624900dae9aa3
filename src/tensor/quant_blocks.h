// The quantised block formats of ggml and the narrow floats of OCP as plain structs and constants;
// their values are computed in dequantize.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TENSOR_QUANT_BLOCKS_H_
#define OPST_TENSOR_QUANT_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "opst/dtype.h"

namespace opst {

enum class QuantType : uint8_t {
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Nl,
  kMxfp4,
};
inline constexpr int kNumQuantTypes = 12;

// Values and bytes of one block. Blocks run along a row; a row is a whole number of them.
struct BlockShape {
  int64_t values;
  size_t bytes;
};
BlockShape BlockShapeOf(QuantType type);
// The spelling of ggml: "Q8_0", "Q4_K", …
std::string_view Name(QuantType type);

inline constexpr int kSmallBlock = 32;
inline constexpr int kSuperBlock = 256;

// Blocks of 32. In `nibbles` byte i holds value i (low half) and value i + 16 (high half).
struct BlockQ8_0 {
  F16 scale;
  int8_t values[32];  // value = scale · q
};
struct BlockQ4_0 {
  F16 scale;
  uint8_t nibbles[16];  // scale · (q - 8)
};
struct BlockQ4_1 {
  F16 scale;
  F16 minimum;
  uint8_t nibbles[16];  // scale · q + minimum
};
struct BlockQ5_0 {
  F16 scale;
  uint8_t high_bits[4];  // bit i = fifth bit of value i
  uint8_t nibbles[16];   // scale · (q - 16)
};
struct BlockQ5_1 {
  F16 scale;
  F16 minimum;
  uint8_t high_bits[4];
  uint8_t nibbles[16];  // scale · q + minimum
};
struct BlockIq4Nl {
  F16 scale;
  uint8_t nibbles[16];  // scale · kIq4NlValues[q]
};
struct BlockMxfp4 {
  uint8_t exponent;     // E8M0: 2^(e - 127)
  uint8_t nibbles[16];  // 2^(e - 127) · kFp4Values[q]
};

// Blocks of 256, cut into 16 groups of 16 or 8 groups of 32 with scales of their own.
struct BlockQ2K {
  uint8_t scales[16];  // group of 16: low half scale, high half minimum
  uint8_t pairs[64];   // 2 bits a value
  F16 scale;
  F16 minimum;  // scale · s · q - minimum · m
};
struct BlockQ3K {
  uint8_t high_bits[32];  // third bit of the values; a missing one subtracts 4
  uint8_t pairs[64];      // low 2 bits of the values
  uint8_t scales[12];     // 16 scales of 6 bits
  F16 scale;              // scale · (s - 32) · q
};
struct BlockQ4K {
  F16 scale;
  F16 minimum;
  uint8_t scales[12];    // 8 scales and 8 minima of 6 bits
  uint8_t nibbles[128];  // scale · s · q - minimum · m
};
struct BlockQ5K {
  F16 scale;
  F16 minimum;
  uint8_t scales[12];
  uint8_t high_bits[32];
  uint8_t nibbles[128];
};
struct BlockQ6K {
  uint8_t nibbles[128];
  uint8_t pairs[64];  // upper 2 bits of the values
  int8_t scales[16];
  F16 scale;  // scale · s · (q - 32)
};

static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockIq4Nl) == 18 && sizeof(BlockMxfp4) == 17);
static_assert(sizeof(BlockQ2K) == 84 && sizeof(BlockQ3K) == 110 && sizeof(BlockQ4K) == 144);
static_assert(sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210);

// FP4 (E2M1): the sixteen values by their bits.
inline constexpr float kFp4Values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
inline constexpr int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace opst

#endif  // OPST_TENSOR_QUANT_BLOCKS_H_
