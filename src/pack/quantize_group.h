// Rounds one group of weights to integers with one scale. Lays nothing out.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_PACK_QUANTIZE_GROUP_H_
#define OPST_PACK_QUANTIZE_GROUP_H_

#include <array>
#include <cstdint>
#include <span>

#include "opst/dtype.h"
#include "opst/packed_weights.h"
#include "tensor/integer_panels.h"

namespace opst {

struct GroupCodes {
  F16 scale;
  std::array<int8_t, kMaxGroup>
      codes;  // weight ≈ scale · code; int4: -8 … 7; mxfp4: those of kMxfp4Values
};

// Codes of a group of 32, 64 or 128 weights. kInvalidArgument for weights that no
// f16 scale can hold.
GroupCodes QuantizeGroup(WeightFormat format, std::span<const float> weights);

}  // namespace opst

#endif  // OPST_PACK_QUANTIZE_GROUP_H_
