// SIMD bodies of the kernels that round floats to integers, for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/quantized_row.h"
#include "tensor/integer_panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize.cc"
// Not sorted: foreach_target.h comes first.
// clang-format off
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using Tag = hn::ScalableTag<float>;

// NaN is looked for apart: what a maximum of NaN and a number is differs between processors.
float MaxAbsRow(const float* x, size_t n) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  auto most = hn::Zero(d);
  auto has_nan = hn::MaskFalse(d);
  for (size_t i = 0; i < n; i += lanes) {
    const auto value = n - i >= lanes ? hn::LoadU(d, x + i) : hn::LoadN(d, x + i, n - i);
    has_nan = hn::Or(has_nan, hn::IsNaN(value));
    most = hn::Max(most, hn::Abs(value));
  }
  if (!hn::AllFalse(d, has_nan)) return std::numeric_limits<float>::quiet_NaN();
  return hn::ReduceMax(d, most);
}

void ToInt8Row(const float* HWY_RESTRICT x, size_t n, float scale, float offset,
               int8_t* HWY_RESTRICT q) {
  const Tag d;
  const hn::Rebind<int8_t, Tag> d8;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  const auto shift = hn::Set(d, offset);
  const auto least = hn::Set(d, -128.0f);
  const auto most = hn::Set(d, 127.0f);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    auto value = hn::MulAdd(hn::LoadN(d, x + i, count), factor, shift);
    value = hn::IfThenZeroElse(hn::IsNaN(value), value);
    const auto rounded = hn::NearestInt(hn::Min(hn::Max(value, least), most));
    hn::StoreN(hn::DemoteTo(d8, rounded), d8, q + i, count);
  }
}

// Always four lanes, and product and difference rounded apart.
float RoundToCodesRow(const float* HWY_RESTRICT x, size_t n, float scale, float inverse,
                      float least, float most, int8_t* HWY_RESTRICT codes) {
  const hn::CappedTag<float, 4> d;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  for (size_t i = 0; i < n; i += lanes) {
    const auto value = hn::LoadU(d, x + i);
    const auto scaled = hn::Mul(value, hn::Set(d, inverse));
    const auto held = hn::Min(hn::Max(scaled, hn::Set(d, least)), hn::Set(d, most));
    const auto code = hn::NearestInt(held);
    const auto error = hn::Sub(value, hn::Mul(hn::Set(d, scale), hn::ConvertTo(d, code)));
    sum = hn::Add(sum, hn::Mul(error, error));
    hn::StoreU(hn::DemoteTo(d8, code), d8, codes + i);
  }
  return hn::ReduceSum(d, sum);
}

// Returns the sum of the integers. n is a multiple of 32.
template <typename Integer>
HWY_INLINE int32_t RoundGroup(const float* HWY_RESTRICT x, size_t n, float inverse,
                              Integer* HWY_RESTRICT values) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<Integer, decltype(d)> dq;
  auto sum = hn::Zero(di);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, inverse)));
    sum = hn::Add(sum, rounded);
    hn::StoreU(hn::DemoteTo(dq, rounded), dq, values + i);
  }
  return hn::ReduceSum(di, sum);
}

template <typename Integer>
HWY_INLINE QuantizedRow<Integer> RoundGroups(const float* row, size_t k, size_t group,
                                             float largest) {
  float x[kBlockK];
  const size_t padded = (k + group - 1) / group * group;
  std::memcpy(x, row, k * sizeof(float));
  std::memset(x + k, 0, (padded - k) * sizeof(float));
  QuantizedRow<Integer> out;
  constexpr float kLeast = 1e-30f;
  for (size_t begin = 0; begin < padded; begin += group) {
    const size_t index = begin / group;
    const float most = MaxAbsRow(x + begin, group);
    if (most >= kLeast && std::isfinite(most)) {
      out.scales[index] = most / largest;
      out.sums[index] = RoundGroup(x + begin, group, largest / most, out.values + begin);
    } else {
      std::memset(out.values + begin, 0, group * sizeof(Integer));
      out.scales[index] = most < kLeast ? 0 : std::numeric_limits<float>::quiet_NaN();
      out.sums[index] = 0;
    }
  }
  return out;
}

void QuantizeRowToInt16(float* row, size_t k, size_t group, float largest) {
  const Int16Row out = RoundGroups<int16_t>(row, k, group, largest);
  std::memcpy(row, &out, sizeof(out));
}

// Where 16 inputs of a row stand: four lanes of int8, or twice the two planes of a lane of nibbles.
constexpr std::array<uint8_t, 16> InputOfPlace(WeightFormat format) {
  std::array<uint8_t, 16> input{};
  for (size_t i = 0; i < input.size(); ++i) {
    const size_t nibble = kNibbleOfInput[i % kInt4PerLane];
    const size_t place = format == WeightFormat::kInt8
                             ? i / kInt8PerLane * kInt8PerLane + kByteOfInput[i % kInt8PerLane]
                             : i / kInt4PerLane * kInt4PerLane + nibble % 2 * 4 + nibble / 2;
    input[place] = static_cast<uint8_t>(i);
  }
  return input;
}

void QuantizeRowToInt8(float* row, size_t k, size_t group, WeightFormat format) {
  Int8Row out = RoundGroups<int8_t>(row, k, group, kLargestInt8);
  static constexpr std::array<uint8_t, 16> kInt8Order = InputOfPlace(WeightFormat::kInt8);
  static constexpr std::array<uint8_t, 16> kNibbleOrder = InputOfPlace(WeightFormat::kInt4);
  const hn::FixedTag<uint8_t, 16> d;
  const auto order =
      hn::LoadU(d, format == WeightFormat::kInt8 ? kInt8Order.data() : kNibbleOrder.data());
  for (size_t i = 0; i < k; i += hn::Lanes(d)) {
    auto* places = reinterpret_cast<uint8_t*>(out.values) + i;
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, places), order), d, places);
  }
  std::memcpy(row, &out, sizeof(out));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opst {
namespace {
HWY_EXPORT(MaxAbsRow);
HWY_EXPORT(ToInt8Row);
HWY_EXPORT(RoundToCodesRow);
HWY_EXPORT(QuantizeRowToInt16);
HWY_EXPORT(QuantizeRowToInt8);
}  // namespace

float MaxAbs(const float* x, size_t n) noexcept { return HWY_DYNAMIC_DISPATCH(MaxAbsRow)(x, n); }
void ToInt8(const float* x, size_t n, float scale, float offset, int8_t* q) noexcept {
  HWY_DYNAMIC_DISPATCH(ToInt8Row)(x, n, scale, offset, q);
}
float RoundToCodes(const float* x, size_t n, float scale, float inverse, float least, float most,
                   int8_t* codes) noexcept {
  return HWY_DYNAMIC_DISPATCH(RoundToCodesRow)(x, n, scale, inverse, least, most, codes);
}
void QuantizeToInt16(float* row, size_t k, size_t group, float largest) noexcept {
  HWY_DYNAMIC_DISPATCH(QuantizeRowToInt16)(row, k, group, largest);
}
void QuantizeToInt8(float* row, size_t k, size_t group, WeightFormat format) noexcept {
  HWY_DYNAMIC_DISPATCH(QuantizeRowToInt8)(row, k, group, format);
}

}  // namespace opst
#endif  // HWY_ONCE
