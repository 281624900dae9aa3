// SIMD bodies of the int8 kernels, for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize.h"

#include <cmath>
#include <limits>

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
}  // namespace

float MaxAbs(const float* x, size_t n) noexcept { return HWY_DYNAMIC_DISPATCH(MaxAbsRow)(x, n); }
void ToInt8(const float* x, size_t n, float scale, float offset, int8_t* q) noexcept {
  HWY_DYNAMIC_DISPATCH(ToInt8Row)(x, n, scale, offset, q);
}
float RoundToCodes(const float* x, size_t n, float scale, float inverse, float least, float most,
                   int8_t* codes) noexcept {
  return HWY_DYNAMIC_DISPATCH(RoundToCodesRow)(x, n, scale, inverse, least, most, codes);
}

}  // namespace opst
#endif  // HWY_ONCE
