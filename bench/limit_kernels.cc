// SIMD bodies of the limit loops, for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/limit_kernels.h"

#include "hwy/cache_control.h"
#include "kernels/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/limit_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/integer_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opst::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace tiles = opst::HWY_NAMESPACE;
namespace {

// Latency 4 on two pipes needs 8 chains, on the four pipes of large ARM cores 16; registers allow
// 12 or 24 beside the two constants.
constexpr size_t kChains = HWY_TARGET <= HWY_AVX3 || HWY_TARGET_IS_NEON ? 24 : 12;

// x = x/2 + 1 stays near 2. The accumulator is a factor, so that no product can be moved out of the
// loop where multiply-add is two instructions.
double FmaChainsOf(size_t length, float* sink) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> chain[kChains];
  OPST_UNROLL
  for (size_t c = 0; c < kChains; ++c) chain[c] = hn::Set(d, static_cast<float>(c));
  const auto half = hn::Set(d, 0.5f);
  const auto one = hn::Set(d, 1.0f);
  for (size_t i = 0; i < length; ++i) {
    OPST_UNROLL
    for (size_t c = 0; c < kChains; ++c) chain[c] = hn::MulAdd(chain[c], half, one);
  }
  auto sum = hn::Zero(d);
  OPST_UNROLL
  for (size_t c = 0; c < kChains; ++c) sum = hn::Add(sum, chain[c]);
  *sink = hn::ReduceSum(d, sum);
  return 2.0 * static_cast<double>(length) * static_cast<double>(kChains * hn::Lanes(d));
}

// Sums may wrap, nobody looks at them.
template <class Dot>
double DotChainsWith(size_t length, float* sink) {
  using Sum = typename Dot::Sum;
  Sum chain[kChains];
  OPST_UNROLL
  for (size_t c = 0; c < kChains; ++c) {
    chain[c] = hn::BitCast(hn::DFromV<Sum>(), hn::Set(tiles::SumTag(), static_cast<int32_t>(c)));
  }
  tiles::SumVec ones = hn::Set(tiles::SumTag(), 0x01010101);
  const auto weights = hn::BitCast(hn::DFromV<typename Dot::Weights>(), ones);
  for (size_t i = 0; i < length; ++i) {
    OPST_UNROLL
    for (size_t c = 0; c < kChains; ++c) {
      ones = tiles::InThisOrder(ones);  // or the product would be moved out of the loop
      chain[c] = Dot::Add(ones, weights, chain[c]);
    }
  }
  auto sum = hn::Zero(tiles::SumTag());
  OPST_UNROLL
  for (size_t c = 0; c < kChains; ++c) {
    sum = hn::Add(sum, hn::BitCast(tiles::SumTag(), chain[c]));
  }
  *sink = static_cast<float>(hn::ReduceSum(tiles::SumTag(), sum));
  return 2.0 * static_cast<double>(Dot::kPerPlane * length) *
         static_cast<double>(kChains * hn::Lanes(tiles::SumTag()));
}

double PairDotChainsOf(size_t length, float* sink) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (UsesVnni()) return DotChainsWith<tiles::VnniPairDot>(length, sink);
#endif
  return DotChainsWith<tiles::PairDot>(length, sink);
}

double QuadDotChainsOf(size_t length, float* sink) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (UsesVnni()) return DotChainsWith<tiles::VnniQuadDot>(length, sink);
#endif
#if HWY_TARGET <= HWY_AVX2
  return DotChainsWith<tiles::ShortQuadDot>(length, sink);
#else
  return PairDotChainsOf(length, sink);
#endif
}

using LineTag = hn::CappedTag<uint64_t, 8>;
constexpr size_t kLineBytes = 64;
constexpr size_t kVecBytes = hn::MaxLanes(LineTag()) * sizeof(uint64_t);
constexpr size_t kVecsPerLine = kLineBytes / kVecBytes;
constexpr size_t kLines = 4;  // read in one step

// Line j of step i stands at i · step + j · stride.
template <size_t kAheadBytes>
uint64_t SumLines(const std::byte* data, size_t num_steps, size_t step, size_t stride) {
  const LineTag d;
  hn::Vec<LineTag> sum[2][kVecsPerLine];
  OPST_UNROLL
  for (size_t v = 0; v < kVecsPerLine; ++v) sum[0][v] = sum[1][v] = hn::Zero(d);
  for (size_t i = 0; i < num_steps; ++i) {
    OPST_UNROLL
    for (size_t line = 0; line < kLines; ++line) {
      const std::byte* bytes = data + i * step + line * stride;
      if constexpr (kAheadBytes > 0) __builtin_prefetch(bytes + kAheadBytes);
      OPST_UNROLL
      for (size_t v = 0; v < kVecsPerLine; ++v) {
        const auto* words = reinterpret_cast<const uint64_t*>(bytes + v * kVecBytes);
        sum[line % 2][v] = hn::Add(sum[line % 2][v], hn::Load(d, words));
      }
    }
  }
  auto total = hn::Zero(d);
  OPST_UNROLL
  for (size_t v = 0; v < kVecsPerLine; ++v) {
    total = hn::Add(total, hn::Add(sum[0][v], sum[1][v]));
  }
  return hn::ReduceSum(d, total);
}

uint64_t SumInOrder(ReadOrder order, const std::byte* data, size_t bytes) {
  const size_t num_steps = bytes / (kLines * kLineBytes);
  const size_t quarter = num_steps * kLineBytes;
  switch (order) {
    case ReadOrder::kOneStream:
      return SumLines<0>(data, num_steps, kLines * kLineBytes, kLineBytes);
    case ReadOrder::kFourStreams:
      return SumLines<0>(data, num_steps, kLineBytes, quarter);
    case ReadOrder::kFourStreamsFetched:
      return SumLines<1024>(data, num_steps, kLineBytes, quarter);
  }
  return 0;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace opst::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opst::bench {
namespace {
HWY_EXPORT(FmaChainsOf);
HWY_EXPORT(PairDotChainsOf);
HWY_EXPORT(QuadDotChainsOf);
HWY_EXPORT(SumInOrder);
}  // namespace

double FmaChains(size_t length, float* sink) noexcept {
  return HWY_DYNAMIC_DISPATCH(FmaChainsOf)(length, sink);
}

double PairDotChains(size_t length, float* sink) noexcept {
  return HWY_DYNAMIC_DISPATCH(PairDotChainsOf)(length, sink);
}

double QuadDotChains(size_t length, float* sink) noexcept {
  return HWY_DYNAMIC_DISPATCH(QuadDotChainsOf)(length, sink);
}

uint64_t SumBytes(ReadOrder order, const std::byte* data, size_t bytes) noexcept {
  return HWY_DYNAMIC_DISPATCH(SumInOrder)(order, data, bytes);
}

std::string_view Name(ReadOrder order) {
  switch (order) {
    case ReadOrder::kOneStream:
      return "one stream";
    case ReadOrder::kFourStreams:
      return "four streams";
    case ReadOrder::kFourStreamsFetched:
      return "four streams, prefetched";
  }
  return "";
}

}  // namespace opst::bench
#endif  // HWY_ONCE
