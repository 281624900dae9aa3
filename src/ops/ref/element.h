// Element access for the reference implementations: slow and independent of layout and dtype.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_REF_ELEMENT_H_
#define OPST_OPS_REF_ELEMENT_H_

#include <cstddef>
#include <cstdint>

#include "opst/dtype.h"
#include "opst/tensor.h"

namespace opst::ref {

// x[row, column] of a 2-D model float tensor.
inline float Load(const ConstTensorView& x, int64_t row, int64_t column) {
  const std::byte* base = x.row(row);
  if (x.dtype() == DType::kF32) return reinterpret_cast<const float*>(base)[column];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(base)[column];
  return x.dtype() == DType::kBf16 ? ToFloat(Bf16{bits}) : ToFloat(F16{bits});
}

inline void Store(const TensorView& x, int64_t row, int64_t column, float value) {
  std::byte* base = x.mutable_row(row);
  if (x.dtype() == DType::kF32) {
    reinterpret_cast<float*>(base)[column] = value;
  } else {
    reinterpret_cast<uint16_t*>(base)[column] =
        x.dtype() == DType::kBf16 ? ToBf16(value).bits : ToF16(value).bits;
  }
}

}  // namespace opst::ref

#endif  // OPST_OPS_REF_ELEMENT_H_
