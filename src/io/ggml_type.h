// The element types a GGUF tensor may name: number, spelling and block size; their values are
// tensor/dequantize.h's.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_GGML_TYPE_H_
#define OPST_IO_GGML_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "opst/dtype.h"
#include "tensor/quant_blocks.h"

namespace opst {

struct GgmlType {
  uint32_t id;
  std::string_view name;
  int64_t block_values;
  size_t block_bytes;
  std::optional<DType> dtype;      // of plain elements
  std::optional<QuantType> quant;  // of blocks that this library can expand
};

// nullptr for a number this library does not know: then not even the tensor's size is known.
const GgmlType* FindGgmlType(uint32_t id);

}  // namespace opst

#endif  // OPST_IO_GGML_TYPE_H_
