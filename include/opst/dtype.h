// Element types of tensors and the two 16-bit float formats as plain structs; no arithmetic on
// them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_DTYPE_H_
#define OPST_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace opst {

enum class DType : uint8_t { kF32, kF16, kBf16, kF64, kI8, kU8, kI16, kI32, kI64, kBool };

// Bytes of one element.
size_t ByteSize(DType dtype);
// The name used in errors and in the docs: "f32", "bf16", …
std::string_view Name(DType dtype);

// Upper half of an IEEE binary32.
struct Bf16 {
  uint16_t bits = 0;
};
// IEEE binary16.
struct F16 {
  uint16_t bits = 0;
};

// Conversions are exact upwards and round to nearest even downwards; NaN stays NaN.
inline float ToFloat(float value) { return value; }
inline float ToFloat(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
float ToFloat(F16 value);
Bf16 ToBf16(float value);
F16 ToF16(float value);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType value = DType::kBf16;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

// The three float types that weights and activations may have.
inline bool IsModelFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16;
}

}  // namespace opst

#endif  // OPST_DTYPE_H_
