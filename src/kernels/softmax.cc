// SIMD bodies of the blockwise softmax, for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cc"
// Not sorted: foreach_target.h comes first.
// clang-format off
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using Tag = hn::ScalableTag<float>;

float MaxOfRow(const float* x, size_t n) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto max = lowest;
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    max = hn::Max(max, hn::LoadNOr(lowest, d, x + i, count));
  }
  return hn::ReduceMax(d, max);
}

float ExpRow(float* x, size_t n, float max) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const auto shift = hn::Set(d, max);
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto sum = hn::Zero(d);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    const auto value = hn::LoadNOr(lowest, d, x + i, count);
    // Exp of a NaN is 0 in this library: keep the NaN, so that a broken row shows.
    const auto power = hn::Exp(d, hn::Sub(value, shift));
    const auto checked = hn::IfThenElse(hn::IsNaN(value), value, power);
    sum = hn::Add(sum, checked);
    hn::StoreN(checked, d, x + i, count);
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
HWY_EXPORT(MaxOfRow);
HWY_EXPORT(ExpRow);
}  // namespace

float MaxOf(const float* x, size_t n) noexcept { return HWY_DYNAMIC_DISPATCH(MaxOfRow)(x, n); }
float ExpInPlace(float* x, size_t n, float max) noexcept {
  return HWY_DYNAMIC_DISPATCH(ExpRow)(x, n, max);
}

}  // namespace opst
#endif  // HWY_ONCE
