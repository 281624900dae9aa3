// Where the inputs of an integer panel stand inside a 32-bit lane; the rest of the layout is in
// opst/packed_weights.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TENSOR_INTEGER_PANELS_H_
#define OPST_TENSOR_INTEGER_PANELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace opst {

inline constexpr size_t kInt8PerLane = 4;
inline constexpr size_t kInt4PerLane = 8;
inline constexpr size_t kMaxGroup = 128;
// What an int4 code is above its value.
inline constexpr int kInt4Zero = 8;

// Twice the value of a 4-bit float, by its bits; and what makes all of them positive.
inline constexpr std::array<int8_t, 16> kMxfp4Values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                        0, -1, -2, -3, -4, -6, -8, -12};
inline constexpr int kMxfp4Zero = 12;

// The byte of input k mod 4, and the nibble of input k mod 8. Masking every 16-bit half of a lane
// then leaves two neighbouring inputs, so that activations keep their order.
inline constexpr std::array<size_t, kInt8PerLane> kByteOfInput = {0, 2, 1, 3};
inline constexpr std::array<size_t, kInt4PerLane> kNibbleOfInput = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace opst

#endif  // OPST_TENSOR_INTEGER_PANELS_H_
