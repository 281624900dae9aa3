// SIMD body of the quantisation of activations, for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantized_row.h"

#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantized_row.cc"
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

using Tag = hn::CappedTag<float, 16>;  // a group is a whole number of vectors

// max|x|; NaN if any is NaN or infinite.
HWY_INLINE float LargestFinite(const float* HWY_RESTRICT x, size_t n) {
  const Tag d;
  auto most = hn::Zero(d);
  auto poison = hn::Zero(d);  // 0 · x: NaN for NaN and infinities
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto value = hn::Load(d, x + i);
    most = hn::Max(most, hn::Abs(value));
    poison = hn::MulAdd(value, hn::Zero(d), poison);
  }
  if (!hn::AllFalse(d, hn::IsNaN(poison))) return std::numeric_limits<float>::quiet_NaN();
  return hn::ReduceMax(d, most);
}

// Returns the sum of the values.
HWY_INLINE int32_t RoundGroup(const float* HWY_RESTRICT x, size_t n, float inverse,
                              int16_t* HWY_RESTRICT values) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const hn::Rebind<int16_t, Tag> d16;
  auto sum = hn::Zero(di);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::Load(d, x + i), hn::Set(d, inverse)));
    sum = hn::Add(sum, rounded);
    hn::StoreU(hn::DemoteTo(d16, rounded), d16, values + i);
  }
  return hn::ReduceSum(di, sum);
}

void Quantize(float* row, size_t k, size_t group, float largest) {
  alignas(64) float x[kBlockK];
  QuantizedRow out;
  const size_t padded = (k + group - 1) / group * group;
  std::memcpy(x, row, k * sizeof(float));
  std::memset(x + k, 0, (padded - k) * sizeof(float));
  constexpr float kLeast = 1e-30f;
  for (size_t begin = 0; begin < padded; begin += group) {
    const size_t index = begin / group;
    const float most = LargestFinite(x + begin, group);
    if (!(most >= kLeast)) {
      std::memset(out.values + begin, 0, group * sizeof(int16_t));
      out.scales[index] = std::isnan(most) ? most : 0;
      out.sums[index] = 0;
      continue;
    }
    out.scales[index] = most / largest;
    out.sums[index] = RoundGroup(x + begin, group, largest / most, out.values + begin);
  }
  std::memcpy(row, out.values, padded * sizeof(int16_t));
  auto* place = reinterpret_cast<std::byte*>(row);
  std::memcpy(place + offsetof(QuantizedRow, scales), out.scales,
              sizeof(QuantizedRow) - offsetof(QuantizedRow, scales));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opst {
namespace {
HWY_EXPORT(Quantize);
}  // namespace

void QuantizeRow(float* row, size_t k, size_t group, float largest) noexcept {
  HWY_DYNAMIC_DISPATCH(Quantize)(row, k, group, largest);
}

}  // namespace opst
#endif  // HWY_ONCE
