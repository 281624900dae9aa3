// The normal distribution function Φ as vectors, for GELU and its slope.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0

#if defined(OPST_KERNELS_NORMAL_CDF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPST_KERNELS_NORMAL_CDF_INL_H_
#undef OPST_KERNELS_NORMAL_CDF_INL_H_
#else
#define OPST_KERNELS_NORMAL_CDF_INL_H_
#endif

#include <cstddef>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {

// Φ(x) by erfc(z) = t · e^(P(t) - z²), t = 1 / (1 + z/2), z = |x|/√2: the Chebyshev fit "erfcc" of
// Numerical Recipes, whose relative error is below 1.2e-7 everywhere, so that the small values at
// negative x have all their digits. 0 and 1 beyond ±14; NaN stays NaN.
template <class D, class V>
HWY_INLINE V NormalCdf(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr float kFit[] = {0.17087277f,  -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f,
                            -0.18628806f, 0.09678418f,  0.37409196f, 1.00002368f,  -1.26551223f};
  const auto one = hn::Set(d, 1.0f);
  const auto half = hn::Set(d, 0.5f);
  const auto most = hn::Set(d, 14.0f);
  // Comparisons instead of Min keep a NaN.
  const auto size = hn::Abs(x);
  const auto is_far = hn::Gt(size, most);
  const auto held = hn::IfThenElse(is_far, most, size);
  const auto t = hn::Div(one, hn::MulAdd(held, hn::Set(d, 0.5f * 0.70710678f), one));
  auto fit = hn::Set(d, kFit[0]);
  OPST_UNROLL
  for (size_t i = 1; i < 10; ++i) fit = hn::MulAdd(fit, t, hn::Set(d, kFit[i]));
  // x²/2 instead of z²: the rounding of 1/√2 would count twice.
  const auto exponent = hn::Sub(fit, hn::Mul(hn::Mul(held, half), held));
  const auto tail = hn::Mul(hn::Mul(half, t), hn::Exp(d, exponent));  // Φ(-|x|)
  const auto kept = hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(is_far, tail));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), kept, hn::Sub(one, kept));
}

}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
