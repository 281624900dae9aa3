// SIMD bodies of the routing kernels, for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gating.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gating.cc"
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

using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::ScalableTag<int32_t>;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

float Clean(const float* HWY_RESTRICT logits, size_t n, float* HWY_RESTRICT clean) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const auto minus_infinity = hn::Set(d, kMinusInfinity);
  auto max = minus_infinity;
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    auto value = hn::LoadNOr(minus_infinity, d, logits + i, count);
    value = hn::IfThenElse(hn::IsNaN(value), minus_infinity, value);
    max = hn::Max(max, value);
    hn::StoreN(value, d, clean + i, count);
  }
  return hn::ReduceMax(d, max);
}

void SoftmaxRow(const float* logits, size_t n, float max, float* scores) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const auto shift = hn::Set(d, max);
  auto sum = hn::Zero(d);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    const auto value = hn::LoadNOr(hn::Set(d, kMinusInfinity), d, logits + i, count);
    const auto power = hn::Exp(d, hn::Sub(value, shift));
    sum = hn::Add(sum, power);
    hn::StoreN(power, d, scores + i, count);
  }
  const auto total = hn::Set(d, hn::ReduceSum(d, sum));
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    hn::StoreN(hn::Div(hn::LoadN(d, scores + i, count), total), d, scores + i, count);
  }
}

void SigmoidRow(const float* logits, size_t n, float* scores) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1.0f);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    const auto value = hn::LoadN(d, logits + i, count);
    // e^-|x|, and e^x / (1 + e^x) for negative x: e^-x would overflow at -89, where scores are
    // still representable and, renormalised, still count.
    const auto power = hn::Exp(d, hn::Neg(hn::Abs(value)));
    const auto numerator = hn::IfThenElse(hn::Lt(value, hn::Zero(d)), power, one);
    hn::StoreN(hn::Div(numerator, hn::Add(one, power)), d, scores + i, count);
  }
}

float EntropyRow(const float* scores, size_t n, float total) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const auto divisor = hn::Set(d, total);
  const auto one = hn::Set(d, 1.0f);
  auto sum = hn::Zero(d);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    const auto share = hn::Div(hn::LoadN(d, scores + i, count), divisor);
    // ln 1 in place of ln 0, whose product with 0 is no number.
    const auto logarithm = hn::Log(d, hn::IfThenElse(hn::Gt(share, hn::Zero(d)), share, one));
    sum = hn::NegMulAdd(share, logarithm, sum);
  }
  return hn::ReduceSum(d, sum);
}

// Negative floats sort backwards as integers: flip all their bits but the sign.
void Keys(const float* HWY_RESTRICT values, size_t n, int32_t* HWY_RESTRICT keys) {
  const FloatTag d;
  const IntTag di;
  const size_t lanes = hn::Lanes(d);
  const auto plus_zero = hn::Zero(d);
  const auto magnitude = hn::Set(di, 0x7FFFFFFF);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    const auto value = hn::Add(hn::LoadN(d, values + i, count), plus_zero);  // -0 becomes +0
    const auto bits = hn::BitCast(di, value);
    const auto flip = hn::And(hn::BroadcastSignBit(bits), magnitude);
    hn::StoreN(hn::Xor(bits, flip), di, keys + i, count);
  }
}

size_t IndexOfFirst(const int32_t* keys, size_t n, int32_t wanted) {
  const IntTag d;
  const size_t lanes = hn::Lanes(d);
  const auto target = hn::Set(d, wanted);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, keys + i), target));
    if (lane >= 0) return i + static_cast<size_t>(lane);
  }
  while (keys[i] != wanted) ++i;
  return i;
}

void TopKRow(int32_t* keys, size_t n, size_t k, int32_t* ids) {
  const IntTag d;
  const size_t lanes = hn::Lanes(d);
  const auto excluded = hn::Set(d, kExcludedKey);
  for (size_t rank = 0; rank < k; ++rank) {
    auto max = excluded;
    for (size_t i = 0; i < n; i += lanes) {
      const size_t count = n - i < lanes ? n - i : lanes;
      max = hn::Max(max, hn::LoadNOr(excluded, d, keys + i, count));
    }
    const size_t index = IndexOfFirst(keys, n, hn::ReduceMax(d, max));
    ids[rank] = static_cast<int32_t>(index);
    keys[index] = kExcludedKey;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opst {
namespace {
HWY_EXPORT(Clean);
HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(SigmoidRow);
HWY_EXPORT(EntropyRow);
HWY_EXPORT(Keys);
HWY_EXPORT(TopKRow);
}  // namespace

float CleanLogits(const float* logits, size_t n, float* clean) noexcept {
  return HWY_DYNAMIC_DISPATCH(Clean)(logits, n, clean);
}
void Softmax(const float* logits, size_t n, float max, float* scores) noexcept {
  HWY_DYNAMIC_DISPATCH(SoftmaxRow)(logits, n, max, scores);
}
void Sigmoid(const float* logits, size_t n, float* scores) noexcept {
  HWY_DYNAMIC_DISPATCH(SigmoidRow)(logits, n, scores);
}
float Entropy(const float* scores, size_t n, float total) noexcept {
  return HWY_DYNAMIC_DISPATCH(EntropyRow)(scores, n, total);
}
void SortKeys(const float* values, size_t n, int32_t* keys) noexcept {
  HWY_DYNAMIC_DISPATCH(Keys)(values, n, keys);
}
void TopK(int32_t* keys, size_t n, size_t k, int32_t* ids) noexcept {
  HWY_DYNAMIC_DISPATCH(TopKRow)(keys, n, k, ids);
}

}  // namespace opst
#endif  // HWY_ONCE
