// SIMD half of the product of integer activations with integer weights: one tile template over
// weight format, dot product, rows and panels.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
//
// A 64-byte row of a panel is cut by masks and shifts into planes of 16-bit pairs, lane = column:
// int8 into 2 planes, int4 into 4. A plane times one broadcast pair of activations is 32 products,
// added in pairs to 16 sums of 32 bits. For one plane, 12 rows and 2 panels on AVX-512:
//   VNNI     24 dot products + 2..3 to unpack, 12 broadcast loads; 24 + 4 + 1 of 32 zmm
//   plain    24 multiplications and 24 additions in their place
//   AVX2      6 rows x 1 panel: 12 multiplications and 12 additions; 12 + 2 + 1 + 1 of 16 ymm

#if defined(OPST_KERNELS_INTEGER_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPST_KERNELS_INTEGER_TILE_INL_H_
#undef OPST_KERNELS_INTEGER_TILE_INL_H_
#else
#define OPST_KERNELS_INTEGER_TILE_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/gemm_tile-inl.h"
#include "kernels/isa.h"
#include "kernels/quantized_row.h"
#include "tensor/integer_panels.h"

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {

using SumTag = hn::RebindToSigned<TileTag>;
using SumVec = hn::Vec<SumTag>;
using PairTag = hn::Repartition<int16_t, TileTag>;
using PairVec = hn::Vec<PairTag>;
using LaneTag = hn::RebindToUnsigned<TileTag>;
using LaneVec = hn::Vec<LaneTag>;

struct Int8Planes {
  static constexpr size_t kPerLane = kInt8PerLane;
  static constexpr size_t kPlanes = 2;
  static constexpr int32_t kZero = 0;
  template <size_t kPlane>
  static HWY_INLINE PairVec Plane(LaneVec lanes) {
    const PairVec pairs = hn::BitCast(PairTag(), lanes);
    return hn::ShiftRight<8>(kPlane == 0 ? hn::ShiftLeft<8>(pairs) : pairs);
  }
};

struct Int4Planes {
  static constexpr size_t kPerLane = kInt4PerLane;
  static constexpr size_t kPlanes = 4;
  static constexpr int32_t kZero = kInt4Zero;
  template <size_t kPlane>
  static HWY_INLINE PairVec Plane(LaneVec lanes) {
    const hn::RebindToUnsigned<PairTag> du;
    const auto pairs = hn::BitCast(du, lanes);
    if constexpr (kPlane == 3) {
      return hn::BitCast(PairTag(), hn::ShiftRight<12>(pairs));
    } else {
      return hn::BitCast(PairTag(), hn::And(hn::ShiftRight<4 * kPlane>(pairs), hn::Set(du, 0x0F)));
    }
  }
};

// sums[j] + x[2j] · w[2j] + x[2j+1] · w[2j+1]
struct PlainDot {
  static HWY_INLINE SumVec Add(PairVec x, PairVec w, SumVec sums) {
    return hn::Add(sums, hn::WidenMulPairwiseAdd(SumTag(), x, w));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// An instruction that is no part of the target's set, so the compiler can't be asked for it.
struct VnniDot {
  static HWY_INLINE SumVec Add(PairVec x, PairVec w, SumVec sums) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sums.raw) : "v"(x.raw), "v"(w.raw));
    return sums;
  }
};
#endif

template <size_t kRows, size_t kPanels>
using TileSums = SumVec[kRows][kPanels][kVecsPerPanel];

HWY_INLINE const QuantizedRow& RowOf(const TileRequest& request, size_t row) {
  return *reinterpret_cast<const QuantizedRow*>(request.a + row * kBlockK);
}

// One plane of the lanes at inputs i … i + kPerLane of every row.
template <class Planes, class Dot, size_t kPlane, size_t kRows, size_t kPanels>
HWY_INLINE void MultiplyPlane(const TileRequest& request, size_t i,
                              const LaneVec (&lanes)[kPanels][kVecsPerPanel],
                              TileSums<kRows, kPanels>& sums) {
  PairVec w[kPanels][kVecsPerPanel];
  OPST_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    OPST_UNROLL
    for (size_t v = 0; v < kVecsPerPanel; ++v) {
      w[p][v] = Planes::template Plane<kPlane>(lanes[p][v]);
    }
  }
  OPST_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    int32_t pair;
    std::memcpy(&pair, RowOf(request, r).values + i + 2 * kPlane, sizeof(pair));
    const PairVec x = hn::BitCast(PairTag(), hn::Set(SumTag(), pair));
    OPST_UNROLL
    for (size_t p = 0; p < kPanels; ++p) {
      OPST_UNROLL
      for (size_t v = 0; v < kVecsPerPanel; ++v)
        sums[r][p][v] = Dot::Add(x, w[p][v], sums[r][p][v]);
    }
  }
}

template <class Planes, class Dot, size_t kRows, size_t kPanels, size_t... kPlane>
HWY_INLINE void MultiplyLanes(const TileRequest& request, const std::byte* row, size_t i,
                              TileSums<kRows, kPanels>& sums, std::index_sequence<kPlane...>) {
  LaneVec lanes[kPanels][kVecsPerPanel];
  OPST_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    const auto* source = reinterpret_cast<const uint32_t*>(row + p * request.panel_stride);
    OPST_UNROLL
    for (size_t v = 0; v < kVecsPerPanel; ++v) {
      lanes[p][v] = hn::LoadU(LaneTag(), source + v * kTileLanes);
    }
  }
  (MultiplyPlane<Planes, Dot, kPlane, kRows, kPanels>(request, i, lanes, sums), ...);
}

// c += scale of the row · scale of the column · sum, for one group.
template <size_t kRows, size_t kPanels>
HWY_INLINE void AddGroup(const TileRequest& request, const std::byte* scales, size_t group,
                         const TileSums<kRows, kPanels>& sums) {
  const TileTag d;
  TileVec w[kPanels][kVecsPerPanel];
  OPST_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    const auto* source = reinterpret_cast<const uint16_t*>(scales + p * request.panel_stride);
    OPST_UNROLL
    for (size_t v = 0; v < kVecsPerPanel; ++v) {
      w[p][v] = PromoteHalves(d, source + v * kTileLanes);
    }
  }
  ForAccumulators<kRows, kPanels>([&](size_t r, size_t p, size_t v) HWY_ATTR {
    float* c = request.c + r * request.ldc + p * kPanelWidth + v * kTileLanes;
    const TileVec scale = hn::Mul(w[p][v], hn::Set(d, RowOf(request, r).scales[group]));
    hn::StoreU(hn::MulAdd(hn::ConvertTo(d, sums[r][p][v]), scale, hn::LoadU(d, c)), d, c);
  });
}

template <class Planes, class Dot, size_t kRows, size_t kPanels>
void IntegerTile(const TileRequest& request) noexcept {
  constexpr size_t kRowBytes = kPanelWidth * sizeof(uint32_t);
  const std::byte* row = request.panels;
  for (size_t begin = 0; begin < request.k; begin += request.group) {
    if (request.prefetch.slab != nullptr) {
      for (size_t i = begin; i < begin + request.group; i += kPrefetchChunk) {
        PrefetchChunk<kPanels>(request.prefetch, i / kPrefetchChunk);
      }
    }
    const size_t group = begin / request.group;
    TileSums<kRows, kPanels> sums;
    ForAccumulators<kRows, kPanels>([&](size_t r, size_t p, size_t v) HWY_ATTR {
      sums[r][p][v] = hn::Set(SumTag(), -Planes::kZero * RowOf(request, r).sums[group]);
    });
    for (size_t i = begin; i < begin + request.group; i += Planes::kPerLane) {
      MultiplyLanes<Planes, Dot, kRows, kPanels>(request, row, i, sums,
                                                 std::make_index_sequence<Planes::kPlanes>());
      row += kRowBytes;
    }
    AddGroup<kRows, kPanels>(request, row, group, sums);
    row += kPanelWidth * sizeof(uint16_t);
  }
}

template <class Planes, class Dot, size_t kRows>
constexpr std::array<TileFn, kMaxTilePanels> IntegerTilesOfHeight() {
  if constexpr (kRows > kTileRows) {
    return {nullptr, nullptr};
  } else if constexpr (kRows * kVecsPerPanel * 2 > kAccumulators) {
    return {&IntegerTile<Planes, Dot, kRows, 1>, nullptr};
  } else {
    return {&IntegerTile<Planes, Dot, kRows, 1>, &IntegerTile<Planes, Dot, kRows, 2>};
  }
}

template <class Planes, class Dot, size_t... kIndex>
constexpr TileKernels MakeIntegerTileKernels(std::index_sequence<kIndex...>) {
  return TileKernels{kTileRows, {IntegerTilesOfHeight<Planes, Dot, kIndex + 1>()...}};
}

template <class Planes>
const TileKernels& IntegerTileKernelsOf() {
  constexpr auto kIndices = std::make_index_sequence<kMaxTileRows>();
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  static constexpr TileKernels kVnni = MakeIntegerTileKernels<Planes, VnniDot>(kIndices);
  if (UsesVnni()) return kVnni;
#endif
  static constexpr TileKernels kPlain = MakeIntegerTileKernels<Planes, PlainDot>(kIndices);
  return kPlain;
}

// out[i] = scale · (code - zero) for the two inputs of every plane.
template <class Planes, size_t kPlane>
HWY_INLINE void DecodePlane(LaneVec lanes, TileVec scale, float* HWY_RESTRICT out) {
  const TileTag d;
  const SumTag di;
  const SumVec pairs = hn::BitCast(di, Planes::template Plane<kPlane>(lanes));
  const SumVec zero = hn::Set(di, Planes::kZero);
  const SumVec even = hn::Sub(hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs)), zero);
  const SumVec odd = hn::Sub(hn::ShiftRight<16>(pairs), zero);
  hn::StoreU(hn::Mul(hn::ConvertTo(d, even), scale), d, out + 2 * kPlane * kPanelWidth);
  hn::StoreU(hn::Mul(hn::ConvertTo(d, odd), scale), d, out + (2 * kPlane + 1) * kPanelWidth);
}

template <class Planes, size_t... kPlane>
HWY_INLINE void DecodeLanes(const std::byte* row, size_t v, TileVec scale, float* HWY_RESTRICT out,
                            std::index_sequence<kPlane...>) {
  const LaneVec lanes =
      hn::LoadU(LaneTag(), reinterpret_cast<const uint32_t*>(row) + v * kTileLanes);
  (DecodePlane<Planes, kPlane>(lanes, scale, out + v * kTileLanes), ...);
}

template <class Planes>
void DecodeIntegerSlab(const std::byte* HWY_RESTRICT slab, size_t k, size_t group,
                       float* HWY_RESTRICT out) noexcept {
  constexpr size_t kRowBytes = kPanelWidth * sizeof(uint32_t);
  const size_t num_rows = group / Planes::kPerLane;
  for (size_t begin = 0; begin < k; begin += group) {
    const std::byte* scales = slab + num_rows * kRowBytes;
    for (size_t v = 0; v < kVecsPerPanel; ++v) {
      const auto* halves = reinterpret_cast<const uint16_t*>(scales) + v * kTileLanes;
      const TileVec scale = PromoteHalves(TileTag(), halves);
      for (size_t row = 0; row < num_rows; ++row) {
        DecodeLanes<Planes>(slab + row * kRowBytes, v, scale,
                            out + (begin + row * Planes::kPerLane) * kPanelWidth,
                            std::make_index_sequence<Planes::kPlanes>());
      }
    }
    slab = scales + kPanelWidth * sizeof(uint16_t);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
