// SIMD bodies of the row kernels, for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rows.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows.cc"
// Not sorted: foreach_target.h comes first.
// clang-format off
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
#include "kernels/half-inl.h"
#include "kernels/normal_cdf-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using Tag = hn::ScalableTag<float>;

void FromBf16(const uint16_t* HWY_RESTRICT src, size_t n, float* HWY_RESTRICT dst) {
  const Tag d;
  const hn::Rebind<uint32_t, Tag> du;
  const hn::Rebind<uint16_t, Tag> du16;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto wide = hn::PromoteTo(du, hn::LoadU(du16, src + i));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(wide)), d, dst + i);
  }
  for (; i < n; ++i) dst[i] = ToFloat(Bf16{src[i]});
}

void FromF16(const uint16_t* HWY_RESTRICT src, size_t n, float* HWY_RESTRICT dst) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(PromoteHalves(d, src + i), d, dst + i);
  for (; i < n; ++i) dst[i] = ToFloat(F16{src[i]});
}

// Rounds in integer arithmetic, as the scalar ToBf16 does, so that tails have the same bits.
void ToBf16Row(const float* HWY_RESTRICT src, size_t n, uint16_t* HWY_RESTRICT dst) {
  const Tag d;
  const hn::Rebind<uint32_t, Tag> du;
  const hn::Rebind<uint16_t, Tag> du16;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = hn::LoadU(d, src + i);
    const auto bits = hn::BitCast(du, value);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu))));
    const auto quiet_nan = hn::Or(upper, hn::Set(du, 0x40u));
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
    hn::StoreU(hn::TruncateTo(du16, hn::IfThenElse(is_nan, quiet_nan, rounded)), du16, dst + i);
  }
  for (; i < n; ++i) dst[i] = ToBf16(src[i]).bits;
}

void ToF16Row(const float* HWY_RESTRICT src, size_t n, uint16_t* HWY_RESTRICT dst) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) DemoteToHalves(d, hn::LoadU(d, src + i), dst + i);
  for (; i < n; ++i) dst[i] = ToF16(src[i]).bits;
}

void ToFloatRow(DType dtype, const void* src, size_t n, float* dst) {
  if (dtype == DType::kBf16) {
    FromBf16(static_cast<const uint16_t*>(src), n, dst);
  } else if (dtype == DType::kF16) {
    FromF16(static_cast<const uint16_t*>(src), n, dst);
  } else if (n > 0) {
    std::memcpy(dst, src, n * sizeof(float));
  }
}

void FromFloatRow(const float* src, size_t n, DType dtype, void* dst) {
  if (dtype == DType::kBf16) {
    ToBf16Row(src, n, static_cast<uint16_t*>(dst));
  } else if (dtype == DType::kF16) {
    ToF16Row(src, n, static_cast<uint16_t*>(dst));
  } else if (n > 0) {
    std::memcpy(dst, src, n * sizeof(float));
  }
}

void Axpy(float w, const float* HWY_RESTRICT x, size_t n, float* HWY_RESTRICT y) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const auto weight = hn::Set(d, w);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::MulAdd(weight, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  }
  if (i < n) {  // the same fused operation for the tail, so that a column's bits do not depend on n
    const auto tail = hn::MulAdd(weight, hn::LoadN(d, x + i, n - i), hn::LoadN(d, y + i, n - i));
    hn::StoreN(tail, d, y + i, n - i);
  }
}

float DotRow(const float* x, const float* y, size_t n) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum);
  }
  if (i < n) sum = hn::MulAdd(hn::LoadN(d, x + i, n - i), hn::LoadN(d, y + i, n - i), sum);
  return hn::ReduceSum(d, sum);
}

// e^x for any x: the vector exp is defined up to 104, where it is infinite already. A NaN becomes
// infinity here and must come back through another operand.
template <class D, class V>
HWY_INLINE V ExpOfAny(D d, V x) {
  return hn::Exp(d, hn::Min(x, hn::Set(d, 104.0f)));
}

struct Silu {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), ExpOfAny(d, hn::Neg(x))));
  }
};

// (1 + tanh u) / 2 = 1 / (1 + e^-2u), which unlike the difference x - x / (e^2u + 1) keeps the
// digits of the small values at negative x.
struct GeluTanh {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const auto cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x);
    const auto minus_twice = hn::Mul(cubic, hn::Set(d, -2.0f * 0.7978845608028654f));
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), ExpOfAny(d, minus_twice)));
  }
};

struct Relu {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);  // keeps NaN, unlike Max
  }
};

struct QuickGelu {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const auto power = ExpOfAny(d, hn::Mul(x, hn::Set(d, -1.702f)));
    return hn::Div(x, hn::Add(hn::Set(d, 1.0f), power));
  }
};

struct Gelu {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const auto product = hn::Mul(x, NormalCdf(d, x));
    // -infinity times 0
    const auto is_off = hn::Lt(x, hn::Set(d, -20.0f));
    return hn::IfThenZeroElse(is_off, product);
  }
};

// Of gate and up together. Comparisons instead of Min and Max keep a NaN.
struct ClampedSwiglu {
  float alpha;
  float limit;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V gate, V up) const {
    const auto most = hn::Set(d, limit);
    const auto least = hn::Set(d, -limit);
    const auto g = hn::IfThenElse(hn::Gt(gate, most), most, gate);
    auto u = hn::IfThenElse(hn::Gt(up, most), most, up);
    u = hn::IfThenElse(hn::Lt(u, least), least, u);
    const auto one = hn::Set(d, 1.0f);
    const auto power = ExpOfAny(d, hn::Mul(hn::Set(d, -alpha), g));
    return hn::Mul(hn::Div(g, hn::Add(one, power)), hn::Add(u, one));
  }
};

template <class Function>
struct Product {
  Function act;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V gate, V up) const {
    return hn::Mul(act(d, gate), up);
  }
};

template <class Function>
HWY_INLINE void Gate(Function act, const float* HWY_RESTRICT tile, size_t num_panels,
                     float* HWY_RESTRICT out) {
  const hn::CappedTag<float, 8> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t p = 0; p < num_panels; ++p) {
    for (size_t j = 0; j < 8; j += lanes) {
      const auto gate = hn::LoadU(d, tile + 16 * p + j);
      const auto up = hn::LoadU(d, tile + 16 * p + 8 + j);
      hn::StoreU(act(d, gate, up), d, out + 8 * p + j);
    }
  }
}

void GateRow(Activation activation, const ActivationLimits& limits, const float* tile,
             size_t num_panels, float* out) {
  switch (activation) {
    case Activation::kSilu:
      return Gate(Product<Silu>(), tile, num_panels, out);
    case Activation::kGeluTanh:
      return Gate(Product<GeluTanh>(), tile, num_panels, out);
    case Activation::kRelu:
      return Gate(Product<Relu>(), tile, num_panels, out);
    case Activation::kClampedSwiglu:
      return Gate(ClampedSwiglu{limits.alpha, limits.limit}, tile, num_panels, out);
    case Activation::kGelu:
      return Gate(Product<Gelu>(), tile, num_panels, out);
    case Activation::kQuickGelu:
      return Gate(Product<QuickGelu>(), tile, num_panels, out);
  }
}

// Vectors of eight lanes as in Gate, so that a value's bits do not depend on where it stands.
template <class Function>
HWY_INLINE void Apply(Function act, float* x, size_t n) {
  const hn::CappedTag<float, 8> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t count = n - i < lanes ? n - i : lanes;
    hn::StoreN(act(d, hn::LoadN(d, x + i, count)), d, x + i, count);
  }
}

void ApplyRow(Activation activation, float* x, size_t n) {
  switch (activation) {
    case Activation::kSilu:
      return Apply(Silu(), x, n);
    case Activation::kGeluTanh:
      return Apply(GeluTanh(), x, n);
    case Activation::kRelu:
      return Apply(Relu(), x, n);
    case Activation::kGelu:
      return Apply(Gelu(), x, n);
    case Activation::kQuickGelu:
      return Apply(QuickGelu(), x, n);
    case Activation::kClampedSwiglu:
      return;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opst {
namespace {
HWY_EXPORT(ToFloatRow);
HWY_EXPORT(FromFloatRow);
HWY_EXPORT(Axpy);
HWY_EXPORT(DotRow);
HWY_EXPORT(GateRow);
HWY_EXPORT(ApplyRow);
}  // namespace

void ConvertToFloat(DType dtype, const void* src, size_t n, float* dst) noexcept {
  HWY_DYNAMIC_DISPATCH(ToFloatRow)(dtype, src, n, dst);
}
void ConvertFromFloat(const float* src, size_t n, DType dtype, void* dst) noexcept {
  HWY_DYNAMIC_DISPATCH(FromFloatRow)(src, n, dtype, dst);
}
void ScaledAccumulate(float w, const float* x, size_t n, float* y) noexcept {
  HWY_DYNAMIC_DISPATCH(Axpy)(w, x, n, y);
}
float Dot(const float* x, const float* y, size_t n) noexcept {
  return HWY_DYNAMIC_DISPATCH(DotRow)(x, y, n);
}
void GatedActivation(Activation activation, const ActivationLimits& limits, const float* tile,
                     size_t num_panels, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(GateRow)(activation, limits, tile, num_panels, out);
}

void ElementActivation(Activation activation, float* x, size_t n) noexcept {
  HWY_DYNAMIC_DISPATCH(ApplyRow)(activation, x, n);
}

}  // namespace opst
#endif  // HWY_ONCE
