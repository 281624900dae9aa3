// SIMD bodies of the activations' gradients, for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation_backward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation_backward.cc"
// Not sorted: foreach_target.h comes first.
// clang-format off
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
#include "kernels/normal_cdf-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// A function's value and derivatives at one vector of (gate, up).
struct Slopes {
  Vec value;
  Vec by_gate;
  Vec by_up;
};

// 1 / (1 + e^-x); the vector exp is defined up to 104, where it is infinite already.
HWY_INLINE Vec Sigmoid(Tag d, Vec x) {
  const Vec one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 104.0f)))));
}

struct Silu {
  HWY_INLINE Slopes operator()(Tag d, Vec gate, Vec up) const {
    const Vec s = Sigmoid(d, gate);
    const Vec act = hn::Mul(gate, s);
    // s (1 + x (1 - s))
    const Vec slope = hn::MulAdd(act, hn::Sub(hn::Set(d, 1.0f), s), s);
    return {hn::Mul(act, up), hn::Mul(slope, up), act};
  }
};

// x/2 (1 + tanh u) = x σ(2u), so that the slope is σ + x · 2u' · σ (1 - σ).
struct GeluTanh {
  HWY_INLINE Slopes operator()(Tag d, Vec gate, Vec up) const {
    constexpr float kTwiceRoot = 2.0f * 0.7978845608028654f;  // 2 √(2/π)
    const Vec square = hn::Mul(gate, gate);
    const Vec inner =
        hn::MulAdd(square, hn::Set(d, kTwiceRoot * 0.044715f), hn::Set(d, kTwiceRoot));
    const Vec s = Sigmoid(d, hn::Mul(inner, gate));
    const Vec by_x =
        hn::MulAdd(square, hn::Set(d, kTwiceRoot * 3 * 0.044715f), hn::Set(d, kTwiceRoot));
    const Vec act = hn::Mul(gate, s);
    const Vec slope = hn::MulAdd(hn::Mul(act, hn::Sub(hn::Set(d, 1.0f), s)), by_x, s);
    // Where σ is 0 or 1 the product of a huge by_x and 0 must not become NaN.
    const auto is_flat = hn::Gt(hn::Abs(gate), hn::Set(d, 20.0f));
    return {hn::Mul(act, up), hn::Mul(hn::IfThenElse(is_flat, s, slope), up), act};
  }
};

struct QuickGelu {
  HWY_INLINE Slopes operator()(Tag d, Vec gate, Vec up) const {
    const Vec factor = hn::Set(d, 1.702f);
    const Vec s = Sigmoid(d, hn::Mul(factor, gate));
    const Vec act = hn::Mul(gate, s);
    const Vec slope = hn::MulAdd(hn::Mul(factor, act), hn::Sub(hn::Set(d, 1.0f), s), s);
    return {hn::Mul(act, up), hn::Mul(slope, up), act};
  }
};

// The slope of x Φ(x) is Φ(x) + x φ(x).
struct Gelu {
  HWY_INLINE Slopes operator()(Tag d, Vec gate, Vec up) const {
    const Vec phi = NormalCdf(d, gate);
    const Vec half_square = hn::Mul(hn::Mul(gate, hn::Set(d, -0.5f)), gate);
    const Vec density = hn::Mul(hn::Set(d, 0.3989422804f), hn::Exp(d, half_square));
    const Vec act = hn::Mul(gate, phi);
    // Far out the density is 0, but infinity times 0 must not become NaN.
    const auto is_flat = hn::Gt(hn::Abs(gate), hn::Set(d, 20.0f));
    const Vec slope = hn::IfThenElse(is_flat, phi, hn::MulAdd(gate, density, phi));
    const auto is_off = hn::And(is_flat, hn::Lt(gate, hn::Zero(d)));
    const Vec value = hn::IfThenZeroElse(is_off, act);
    return {hn::Mul(value, up), hn::Mul(slope, up), value};
  }
};

struct Relu {
  HWY_INLINE Slopes operator()(Tag d, Vec gate, Vec up) const {
    const auto is_off = hn::Le(gate, hn::Zero(d));  // false for NaN, which stays
    const Vec act = hn::IfThenZeroElse(is_off, gate);
    const auto is_nan = hn::IsNaN(gate);
    const Vec slope = hn::IfThenElse(is_nan, gate, hn::IfThenZeroElse(is_off, hn::Set(d, 1.0f)));
    return {hn::Mul(act, up), hn::Mul(slope, up), act};
  }
};

struct ClampedSwiglu {
  float alpha;
  float limit;
  HWY_INLINE Slopes operator()(Tag d, Vec gate, Vec up) const {
    const Vec most = hn::Set(d, limit);
    const Vec least = hn::Set(d, -limit);
    const Vec one = hn::Set(d, 1.0f);
    const auto gate_is_cut = hn::Gt(gate, most);
    const auto up_is_cut = hn::Or(hn::Gt(up, most), hn::Lt(up, least));
    const Vec g = hn::IfThenElse(gate_is_cut, most, gate);
    Vec u = hn::IfThenElse(hn::Gt(up, most), most, up);
    u = hn::Add(hn::IfThenElse(hn::Lt(up, least), least, u), one);
    const Vec factor = hn::Set(d, alpha);
    const Vec s = Sigmoid(d, hn::Mul(factor, g));
    const Vec act = hn::Mul(g, s);
    const Vec slope = hn::MulAdd(hn::Mul(factor, act), hn::Sub(one, s), s);
    return {hn::Mul(act, u), hn::IfThenZeroElse(gate_is_cut, hn::Mul(slope, u)),
            hn::IfThenZeroElse(up_is_cut, act)};
  }
};

template <class Function>
HWY_INLINE void Run(Function function, size_t n, const ActivationRow& row) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    const Vec d_h = hn::LoadN(d, row.d_h + i, count);
    const Vec up = row.up == nullptr ? hn::Set(d, 1.0f) : hn::LoadN(d, row.up + i, count);
    const Slopes slopes = function(d, hn::LoadN(d, row.gate + i, count), up);
    hn::StoreN(hn::Mul(d_h, slopes.by_gate), d, row.d_gate + i, count);
    if (row.up != nullptr) hn::StoreN(hn::Mul(d_h, slopes.by_up), d, row.d_up + i, count);
    hn::StoreN(slopes.value, d, row.h + i, count);
  }
}

void BackwardRow(Activation activation, const ActivationLimits& limits, size_t n,
                 const ActivationRow& row) {
  switch (activation) {
    case Activation::kSilu:
      return Run(Silu(), n, row);
    case Activation::kGeluTanh:
      return Run(GeluTanh(), n, row);
    case Activation::kRelu:
      return Run(Relu(), n, row);
    case Activation::kGelu:
      return Run(Gelu(), n, row);
    case Activation::kQuickGelu:
      return Run(QuickGelu(), n, row);
    case Activation::kClampedSwiglu:
      return Run(ClampedSwiglu{limits.alpha, limits.limit}, n, row);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opst {
namespace {
HWY_EXPORT(BackwardRow);
}  // namespace

void ActivationBackward(Activation activation, const ActivationLimits& limits, size_t n,
                        const ActivationRow& row) noexcept {
  HWY_DYNAMIC_DISPATCH(BackwardRow)(activation, limits, n, row);
}

}  // namespace opst
#endif  // HWY_ONCE
