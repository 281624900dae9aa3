// Vector conversions of f16 with the bits of the scalar ones, for targets with and without hardware
// support; no loops over rows.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0

#if defined(OPST_KERNELS_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPST_KERNELS_HALF_INL_H_
#undef OPST_KERNELS_HALF_INL_H_
#else
#define OPST_KERNELS_HALF_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "opst/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {

// Highway's own emulation reads infinities as 65536 and NaN as larger numbers, so that a poisoned
// row would come out healthy; it also gives NaN other bits when narrowing.
constexpr bool kConvertsHalvesInHardware = !HWY_ARCH_X86 || HWY_TARGET <= HWY_AVX2;

// Lanes(d) halves from `src` as f32.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> PromoteHalves(D d, const uint16_t* src) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kConvertsHalvesInHardware) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(src)));
  } else {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> du16;
    const auto bits = hn::PromoteTo(du, hn::LoadU(du16, src));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFu));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    // As f32 this is 2^-112 of the value, denormals included, and the product is exact.
    const auto scaled = hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f));
    const auto finite = hn::BitCast(du, scaled);
    const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7C00u));
    const auto special = hn::Or(hn::Or(shifted, hn::Set(du, 0x7F800000u)),
                                hn::IfThenElseZero(is_nan, hn::Set(du, 0x400000u)));
    const auto is_finite = hn::Lt(magnitude, hn::Set(du, 0x7C00u));
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_finite, finite, special)));
  }
}

// Stores Lanes(d) floats as halves, rounded to nearest even.
template <class D>
HWY_INLINE void DemoteToHalves(D d, hwy::HWY_NAMESPACE::Vec<D> value, uint16_t* dst) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::DemoteTo(dh, value), dh, reinterpret_cast<hwy::float16_t*>(dst));
  if constexpr (!kConvertsHalvesInHardware) {
    if (HWY_LIKELY(hn::AllFalse(d, hn::IsNaN(value)))) return;
    float values[hn::MaxLanes(D())];
    hn::StoreU(value, d, values);
    for (size_t i = 0; i < hn::Lanes(d); ++i) dst[i] = ToF16(values[i]).bits;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
