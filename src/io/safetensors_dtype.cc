// The element types of the safetensors format: their spelling and size; no conversion of values.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_dtype.h"

#include <cstddef>

namespace opst {
namespace {

struct Row {
  std::string_view spelling;
  uint32_t bits;
  std::optional<DType> dtype;
};

constexpr Row kRows[] = {
    {"F32", 32, DType::kF32},
    {"BF16", 16, DType::kBf16},
    {"F16", 16, DType::kF16},
    {"F64", 64, DType::kF64},
    {"I8", 8, DType::kI8},
    {"U8", 8, DType::kU8},
    {"I16", 16, DType::kI16},
    {"I32", 32, DType::kI32},
    {"I64", 64, DType::kI64},
    {"BOOL", 8, DType::kBool},
    {"U16", 16, std::nullopt},
    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},
    {"C64", 64, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
};

const Row* FindRow(std::string_view spelling) {
  for (const Row& row : kRows) {
    if (row.spelling == spelling) return &row;
  }
  return nullptr;
}

}  // namespace

std::optional<uint32_t> SafetensorsBits(std::string_view spelling) {
  const Row* row = FindRow(spelling);
  return row == nullptr ? std::nullopt : std::optional(row->bits);
}

std::optional<DType> DTypeFromSafetensors(std::string_view spelling) {
  const Row* row = FindRow(spelling);
  return row == nullptr ? std::nullopt : row->dtype;
}

std::string_view SafetensorsSpelling(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row.spelling;
  }
  return "?";
}

std::optional<uint64_t> TensorBytes(std::span<const int64_t> shape, uint32_t bits_per_element) {
  int64_t bits = bits_per_element;  // of all non-zero dimensions
  bool is_empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      is_empty = true;
    } else if (__builtin_mul_overflow(bits, dim, &bits)) {
      return std::nullopt;
    }
  }
  if (is_empty) return 0;
  if (bits % 8 != 0) return std::nullopt;
  return static_cast<uint64_t>(bits / 8);
}

std::string ShapeText(std::span<const int64_t> shape) {
  constexpr size_t kMaxDims = 8;
  std::string text = "[";
  for (size_t i = 0; i < shape.size() && i < kMaxDims; ++i) {
    if (i > 0) text += ',';
    text += std::to_string(shape[i]);
  }
  if (shape.size() > kMaxDims) text += ",...";
  return text + "]";
}

}  // namespace opst
