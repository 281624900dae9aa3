// Plain C++ loops that the compiler vectorises, built for every instruction set like our kernels so
// that the comparison is of code, not of compiler flags. No intrinsics.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plain_kernels.h"

#include <math.h>  // not <cmath>: its inline functions would be built for one instruction set only

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/plain_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace opst::bench {
namespace HWY_NAMESPACE {
namespace {

// Sums side by side let the compiler use vectors without reordering an addition that the source
// orders; 64 are four vectors with AVX-512, eight with AVX2, so that the latency of additions is
// hidden behind the two loads that each product needs.
constexpr size_t kSums = 64;

float Dot(const float* a, const float* b, size_t n) {
  float sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (size_t j = 0; j < kSums; ++j) sums[j] += a[i + j] * b[i + j];
  }
  float sum = 0;
  for (size_t j = 0; j < kSums; ++j) sum += sums[j];
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void UpLoop(const PlainSlots& slots, const float* gate, const float* up, const float* x,
            size_t hidden, size_t ffn, size_t begin, size_t end, float* h) {
  for (size_t f = begin; f < end; ++f) {
    for (size_t i = 0; i < slots.count; ++i) {
      const size_t slot = static_cast<size_t>(slots.slots[i]);
      const float* token = x + slot / slots.top_k * hidden;
      const float g = Dot(gate + f * hidden, token, hidden);
      const float u = Dot(up + f * hidden, token, hidden);
      h[slot * ffn + f] = g / (1.0f + expf(-g)) * u;
    }
  }
}

void DownLoop(const PlainSlots& slots, const float* weights, const float* down, const float* h,
              size_t hidden, size_t ffn, size_t begin, size_t end, float* out) {
  for (size_t n = begin; n < end; ++n) {
    for (size_t i = 0; i < slots.count; ++i) {
      const size_t slot = static_cast<size_t>(slots.slots[i]);
      out[slot / slots.top_k * hidden + n] +=
          weights[slot] * Dot(down + n * ffn, h + slot * ffn, ffn);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace opst::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opst::bench {
namespace {
HWY_EXPORT(UpLoop);
HWY_EXPORT(DownLoop);
}  // namespace

void PlainUp(const PlainSlots& slots, const float* gate, const float* up, const float* x,
             size_t hidden, size_t ffn, size_t begin, size_t end, float* h) noexcept {
  HWY_DYNAMIC_DISPATCH(UpLoop)(slots, gate, up, x, hidden, ffn, begin, end, h);
}

void PlainDown(const PlainSlots& slots, const float* weights, const float* down, const float* h,
               size_t hidden, size_t ffn, size_t begin, size_t end, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(DownLoop)(slots, weights, down, h, hidden, ffn, begin, end, out);
}

}  // namespace opst::bench
#endif  // HWY_ONCE
