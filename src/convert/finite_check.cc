// Looks for exponents of all ones, block by block, and names the first element that has one.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/finite_check.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "io/quote.h"
#include "kernels/rows.h"

namespace opst {
namespace {

// A block's answer is one or of comparisons, which compilers vectorise.
constexpr size_t kBlock = 4096;

template <typename Bits>
size_t FirstWithExponent(const std::byte* data, size_t count, Bits exponent) {
  const auto* bits = reinterpret_cast<const Bits*>(data);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    bool is_any = false;
    for (size_t i = begin; i < end; ++i) is_any |= (bits[i] & exponent) == exponent;
    for (size_t i = begin; is_any && i < end; ++i) {
      if ((bits[i] & exponent) == exponent) return i;
    }
  }
  return count;
}

// The index of the first NaN or infinity; `count` without one.
size_t FirstNonFinite(DType dtype, const std::byte* data, size_t count) {
  if (dtype == DType::kF32) return FirstWithExponent<uint32_t>(data, count, 0x7F800000u);
  return FirstWithExponent<uint16_t>(data, count, dtype == DType::kBf16 ? 0x7F80 : 0x7C00);
}

std::string Position(const SafetensorsTensor& tensor, int64_t index) {
  std::string text;
  for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) {
    text = Concat(index % *extent, text.empty() ? "" : ",", text);
    index /= *extent;
  }
  return Concat(Quote(tensor.name), "[", text, "]");
}

}  // namespace

void CheckFinite(const std::string& file, const SafetensorsTensor& tensor, DType dtype,
                 int64_t first, std::span<const std::byte> bytes) {
  const size_t count = bytes.size() / ByteSize(dtype);
  const size_t found = FirstNonFinite(dtype, bytes.data(), count);
  if (found == count) return;
  float value = 0;
  ConvertToFloat(dtype, bytes.data() + found * ByteSize(dtype), 1, &value);
  ThrowIo(file, "weights must be finite numbers",
          Concat(Position(tensor, first + static_cast<int64_t>(found)), " = ", value));
}

void CheckFits(const std::string& file, const SafetensorsTensor& tensor, DType dtype, int64_t first,
               std::span<const float> values, const std::byte* rounded) {
  const size_t found = FirstNonFinite(dtype, rounded, values.size());
  if (found == values.size()) return;
  ThrowIo(file,
          Concat("weights must fit ", Name(dtype), "; --weights bf16 and f32 hold larger numbers"),
          Concat(Position(tensor, first + static_cast<int64_t>(found)), " = ", values[found]));
}

}  // namespace opst
