// Sizes, names and scalar conversions of element types; vector conversions live in kernels/.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/dtype.h"

namespace opst {

size_t ByteSize(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
    case DType::kF16:
    case DType::kBf16:
    case DType::kI16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
  }
  return 0;
}

std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBf16:
      return "bf16";
    case DType::kF64:
      return "f64";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kI16:
      return "i16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kBool:
      return "bool";
  }
  return "?";
}

float ToFloat(F16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1Fu;
  const uint32_t mantissa = value.bits & 0x3FFu;
  if (exponent == 0x1F) {  // infinity, NaN: the payload stays, a signalling one becomes quiet
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {  // zero, subnormal: the mantissa counts units of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

Bf16 ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {  // NaN: keep the sign, make it quiet
    return Bf16{static_cast<uint16_t>((bits >> 16) | 0x40u)};
  }
  const uint32_t round_to_even = 0x7FFFu + ((bits >> 16) & 1u);
  return Bf16{static_cast<uint16_t>((bits + round_to_even) >> 16)};
}

F16 ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {  // NaN: quiet, with what fits of the payload, as hardware does it
    return F16{static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu))};
  }
  if (magnitude >= 0x477FF000u) return F16{static_cast<uint16_t>(sign | 0x7C00u)};  // >= 65520
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal or zero
    // Adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded to even by the FPU.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return F16{static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u))};
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return F16{static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace opst
