// SIMD bodies of the decoder's row kernels, for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using Tag = hn::ScalableTag<float>;

// Calls body(index, count) for every vector of n elements, the last one shorter.
template <class Body>
HWY_INLINE void ForVectors(size_t n, Body body) {
  const size_t lanes = hn::Lanes(Tag());
  for (size_t i = 0; i < n; i += lanes) body(i, n - i < lanes ? n - i : lanes);
}

void RmsNormRow(const float* x, const float* weight, size_t n, float eps, float* out) {
  const Tag d;
  auto sum = hn::Zero(d);
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const auto value = hn::LoadN(d, x + i, count);
    sum = hn::MulAdd(value, value, sum);
  });
  const float mean = hn::ReduceSum(d, sum) / static_cast<float>(n);
  const auto scale = hn::Set(d, 1.0f / std::sqrt(mean + eps));
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const auto value = hn::Mul(hn::LoadN(d, x + i, count), scale);
    hn::StoreN(hn::Mul(value, hn::LoadN(d, weight + i, count)), d, out + i, count);
  });
}

void LayerNormRow(const float* x, const float* weight, const float* bias, size_t n, float eps,
                  float* out) {
  const Tag d;
  auto sum = hn::Zero(d);
  ForVectors(
      n, [&](size_t i, size_t count) HWY_ATTR { sum = hn::Add(sum, hn::LoadN(d, x + i, count)); });
  const auto mean = hn::Set(d, hn::ReduceSum(d, sum) / static_cast<float>(n));
  auto squares = hn::Zero(d);
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    // The unused lanes of a short vector hold the mean, so that they add nothing.
    const auto value = hn::Sub(hn::LoadNOr(mean, d, x + i, count), mean);
    squares = hn::MulAdd(value, value, squares);
  });
  const float variance = hn::ReduceSum(d, squares) / static_cast<float>(n);
  const auto scale = hn::Set(d, 1.0f / std::sqrt(variance + eps));
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    const auto value = hn::Mul(hn::Sub(hn::LoadN(d, x + i, count), mean), scale);
    const auto scaled = hn::Mul(value, hn::LoadN(d, weight + i, count));
    hn::StoreN(hn::Add(scaled, hn::LoadN(d, bias + i, count)), d, out + i, count);
  });
}

// Scalar: interleaved pairs are a few dozen per head.
void RotateNeighbours(float* HWY_RESTRICT x, size_t half, const float* HWY_RESTRICT cosines,
                      const float* HWY_RESTRICT sines) {
  for (size_t i = 0; i < half; ++i) {
    const float first = x[2 * i];
    const float second = x[2 * i + 1];
    x[2 * i] = first * cosines[i] - second * sines[i];
    x[2 * i + 1] = second * cosines[i] + first * sines[i];
  }
}

void Rotate(float* HWY_RESTRICT x, size_t half, const float* HWY_RESTRICT cosines,
            const float* HWY_RESTRICT sines) {
  const Tag d;
  ForVectors(half, [&](size_t i, size_t count) HWY_ATTR {
    const auto first = hn::LoadN(d, x + i, count);
    const auto second = hn::LoadN(d, x + half + i, count);
    const auto cosine = hn::LoadN(d, cosines + i, count);
    const auto sine = hn::LoadN(d, sines + i, count);
    hn::StoreN(hn::Sub(hn::Mul(first, cosine), hn::Mul(second, sine)), d, x + i, count);
    hn::StoreN(hn::Add(hn::Mul(second, cosine), hn::Mul(first, sine)), d, x + half + i, count);
  });
}

void AddRow(const float* HWY_RESTRICT x, size_t n, float* HWY_RESTRICT y) {
  const Tag d;
  ForVectors(n, [&](size_t i, size_t count) HWY_ATTR {
    hn::StoreN(hn::Add(hn::LoadN(d, y + i, count), hn::LoadN(d, x + i, count)), d, y + i, count);
  });
}

void ClampRow(float* x, size_t n, float limit) {
  for (size_t i = 0; i < n; ++i) {
    x[i] = x[i] > limit ? limit : (x[i] < -limit ? -limit : x[i]);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opst {
namespace {
HWY_EXPORT(RmsNormRow);
HWY_EXPORT(LayerNormRow);
HWY_EXPORT(RotateNeighbours);
HWY_EXPORT(Rotate);
HWY_EXPORT(AddRow);
HWY_EXPORT(ClampRow);
}  // namespace

void RmsNorm(const float* x, const float* weight, size_t n, float eps, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(RmsNormRow)(x, weight, n, eps, out);
}
void RotateHalves(float* x, size_t half, const float* cosines, const float* sines) noexcept {
  HWY_DYNAMIC_DISPATCH(Rotate)(x, half, cosines, sines);
}
void LayerNorm(const float* x, const float* weight, const float* bias, size_t n, float eps,
               float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(LayerNormRow)(x, weight, bias, n, eps, out);
}
void RotatePairs(float* x, size_t half, const float* cosines, const float* sines) noexcept {
  HWY_DYNAMIC_DISPATCH(RotateNeighbours)(x, half, cosines, sines);
}
void AddTo(const float* x, size_t n, float* y) noexcept { HWY_DYNAMIC_DISPATCH(AddRow)(x, n, y); }
void Clamp(float* x, size_t n, float limit) noexcept {
  HWY_DYNAMIC_DISPATCH(ClampRow)(x, n, limit);
}

}  // namespace opst
#endif  // HWY_ONCE
