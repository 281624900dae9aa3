// The element types of the safetensors format: their spelling and size; no conversion of values.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_SAFETENSORS_DTYPE_H_
#define OPST_IO_SAFETENSORS_DTYPE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "opst/dtype.h"

namespace opst {

// Bits of one element ("F32" = 32, "F4" = 4); nothing for a spelling this library does not know.
std::optional<uint32_t> SafetensorsBits(std::string_view spelling);
// Our type of the same values; nothing for types that we only carry as bytes (F8_*, C64, U16, ...).
std::optional<DType> DTypeFromSafetensors(std::string_view spelling);
// "F32", "BF16", ...
std::string_view SafetensorsSpelling(DType dtype);

// Bytes of a tensor; nothing when a known type's bits do not fill whole bytes, when a dimension is
// negative, or when the size reaches 2^60 bytes (dimensions of 0 do not excuse huge ones beside
// them).
std::optional<uint64_t> TensorBytes(std::span<const int64_t> shape, uint32_t bits_per_element);
// "[8,14336,4096]", at most the first 8 dimensions.
std::string ShapeText(std::span<const int64_t> shape);

}  // namespace opst

#endif  // OPST_IO_SAFETENSORS_DTYPE_H_
