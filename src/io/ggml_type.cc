// The table of ggml element types.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/ggml_type.h"

namespace opst {
namespace {

GgmlType Plain(uint32_t id, std::string_view name, DType dtype) {
  return {id, name, 1, ByteSize(dtype), dtype, std::nullopt};
}

GgmlType Blocks(uint32_t id, QuantType quant) {
  const BlockShape shape = BlockShapeOf(quant);
  return {id, Name(quant), shape.values, shape.bytes, std::nullopt, quant};
}

// Sized, so that the file can be checked, but not expanded.
GgmlType Opaque(uint32_t id, std::string_view name, int64_t values, size_t bytes) {
  return {id, name, values, bytes, std::nullopt, std::nullopt};
}

}  // namespace

const GgmlType* FindGgmlType(uint32_t id) {
  static const GgmlType kTypes[] = {
      Plain(0, "F32", DType::kF32),    Plain(1, "F16", DType::kF16),
      Plain(30, "BF16", DType::kBf16), Plain(28, "F64", DType::kF64),
      Plain(24, "I8", DType::kI8),     Plain(25, "I16", DType::kI16),
      Plain(26, "I32", DType::kI32),   Plain(27, "I64", DType::kI64),
      Blocks(2, QuantType::kQ4_0),     Blocks(3, QuantType::kQ4_1),
      Blocks(6, QuantType::kQ5_0),     Blocks(7, QuantType::kQ5_1),
      Blocks(8, QuantType::kQ8_0),     Blocks(10, QuantType::kQ2K),
      Blocks(11, QuantType::kQ3K),     Blocks(12, QuantType::kQ4K),
      Blocks(13, QuantType::kQ5K),     Blocks(14, QuantType::kQ6K),
      Blocks(20, QuantType::kIq4Nl),   Blocks(39, QuantType::kMxfp4),
      Opaque(9, "Q8_1", 32, 40),       Opaque(15, "Q8_K", 256, 292),
      Opaque(16, "IQ2_XXS", 256, 66),  Opaque(17, "IQ2_XS", 256, 74),
      Opaque(18, "IQ3_XXS", 256, 98),  Opaque(19, "IQ1_S", 256, 50),
      Opaque(21, "IQ3_S", 256, 110),   Opaque(22, "IQ2_S", 256, 82),
      Opaque(23, "IQ4_XS", 256, 136),  Opaque(29, "IQ1_M", 256, 56),
      Opaque(34, "TQ1_0", 256, 54),    Opaque(35, "TQ2_0", 256, 66),
  };
  for (const GgmlType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

}  // namespace opst
