// Refuses weights that are NaN or infinite, and those that a narrower type cannot hold.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_FINITE_CHECK_H_
#define OPST_CONVERT_FINITE_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/safetensors.h"
#include "opst/dtype.h"

namespace opst {

// Elements [first, first + n) of `tensor`, given as bytes of `dtype`, one of f32, bf16, f16.
// Throws kIo naming tensor, position and value of the first one that is no finite number. One pass
// at the speed of memory.
void CheckFinite(const std::string& file, const SafetensorsTensor& tensor, DType dtype,
                 int64_t first, std::span<const std::byte> bytes);

// The same elements before and after rounding to `dtype`: finite numbers must have stayed finite.
void CheckFits(const std::string& file, const SafetensorsTensor& tensor, DType dtype, int64_t first,
               std::span<const float> values, const std::byte* rounded);

}  // namespace opst

#endif  // OPST_CONVERT_FINITE_CHECK_H_
