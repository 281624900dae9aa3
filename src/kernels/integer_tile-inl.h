// SIMD half of the product of integer activations with integer weights: one tile template over
// weight format, dot product, rows and panels.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
//
// A lane of a panel holds four int8 or eight int4 or 4-bit floats of one column. Masks and shifts
// cut it into planes of inputs that stand together: two of 16 bits, to be multiplied with
// activations of 16 bits, or four of 8 bits for those of 8. A plane times 32 bits of an activation
// row, broadcast, gives sums of 32 bits. Operations for one plane of the largest tiles, and
// registers (sums + planes + rest):
//                                 multiply and add   unpack int8, int4           registers
//   AVX-512 VNNI  12 rows x 2     24                 3, 3.5 (pairs) 2, 3 (quads) 24 + 2 + 3 of 32
//   AVX-512       the same        24 + 24            the same                    24 + 2 + 4 of 32
//   AVX2           6 rows x 1     12 + 12            3, 3.5 (pairs) 3 (quads)    12 + 2 + 2 of 16
// Quads without VNNI are summed in 16 bits, which hold 32 inputs of int4: 8 quads · 2 · 15 · 127 =
// 30480 in each half, or 16 of the 4-bit floats. Those of int8 would not fit; they take the pairs.

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

struct Int8Panel {
  static constexpr size_t kPerLane = kInt8PerLane;
  static constexpr int32_t kZero = 0;
  template <size_t kPlane>
  static HWY_INLINE PairVec Pairs(LaneVec lanes) {
    const PairVec pairs = hn::BitCast(PairTag(), lanes);
    return hn::ShiftRight<8>(kPlane == 0 ? hn::ShiftLeft<8>(pairs) : pairs);
  }
  // One operand of a dot product of bytes is unsigned: codes go 128 up.
  static constexpr int32_t kQuadZero = 128;
  template <size_t kPlane>
  static HWY_INLINE LaneVec Quads(LaneVec lanes) {
    return hn::Xor(lanes, hn::Set(LaneTag(), 0x80808080u));
  }
};

struct Int4Panel {
  static constexpr size_t kPerLane = kInt4PerLane;
  static constexpr int32_t kZero = kInt4Zero;
  template <size_t kPlane>
  static HWY_INLINE PairVec Pairs(LaneVec lanes) {
    const hn::RebindToUnsigned<PairTag> du;
    const auto pairs = hn::BitCast(du, lanes);
    if constexpr (kPlane == 3) {
      return hn::BitCast(PairTag(), hn::ShiftRight<12>(pairs));
    } else {
      return hn::BitCast(PairTag(), hn::And(hn::ShiftRight<4 * kPlane>(pairs), hn::Set(du, 0x0F)));
    }
  }
  static constexpr int32_t kQuadZero = kInt4Zero;
  template <size_t kPlane>
  static HWY_INLINE LaneVec Quads(LaneVec lanes) {
    return hn::And(hn::ShiftRight<4 * kPlane>(lanes), hn::Set(LaneTag(), 0x0F0F0F0Fu));
  }
};

// The same sums, but the compiler can't know it. It adds products to each other first otherwise,
// and then has too few registers for them and the sums.
template <class Sum>
HWY_INLINE Sum InThisOrder(Sum sums) {
#if HWY_ARCH_X86
  asm("" : "+v"(sums.raw));
#endif
  return sums;
}

// 4-bit floats: as twice their value + 12, which a shuffle of bytes looks up.
struct Mxfp4Panel {
  static constexpr size_t kPerLane = kInt4PerLane;
  static constexpr int32_t kZero = kMxfp4Zero;
  template <size_t kPlane>
  static HWY_INLINE PairVec Pairs(LaneVec lanes) {
    const hn::RebindToUnsigned<PairTag> du;
    const auto pairs = hn::BitCast(du, Quads<kPlane % 2>(lanes));
    return hn::BitCast(PairTag(),
                       kPlane < 2 ? hn::And(pairs, hn::Set(du, 0xFF)) : hn::ShiftRight<8>(pairs));
  }
  static constexpr int32_t kQuadZero = kMxfp4Zero;
  template <size_t kPlane>
  static HWY_INLINE LaneVec Quads(LaneVec lanes) {
    static constexpr uint8_t kCodes[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                           12, 11, 10, 9,  8,  6,  4,  0};
    const hn::Repartition<uint8_t, TileTag> du8;
    const auto nibbles = hn::BitCast(du8, Int4Panel::Quads<kPlane>(lanes));
    return hn::BitCast(LaneTag(), hn::TableLookupBytes(hn::LoadDup128(du8, kCodes), nibbles));
  }
};

// How planes meet activations. kRunOf<Panel> inputs fit the accumulator of type Sum, 0 = a group.
struct PairDot {
  using Row = Int16Row;
  using Weights = PairVec;
  using Sum = SumVec;
  static constexpr ActivationFormat kRowFormat = ActivationFormat::kInt16;
  static constexpr size_t kPerPlane = 2;
  template <class Panel>
  static constexpr size_t kRunOf = 0;
  template <class Panel>
  static constexpr int32_t kZeroOf = Panel::kZero;
  template <class Panel, size_t kPlane>
  static HWY_INLINE PairVec Plane(LaneVec lanes) {
    return Panel::template Pairs<kPlane>(lanes);
  }
  // sums[j] + x[2j] · w[2j] + x[2j+1] · w[2j+1]
  static HWY_INLINE SumVec Add(SumVec x, PairVec w, SumVec sums) {
    return InThisOrder(
        hn::Add(sums, hn::WidenMulPairwiseAdd(SumTag(), hn::BitCast(PairTag(), x), w)));
  }
};

struct QuadDot {
  using Row = Int8Row;
  using Weights = LaneVec;
  static constexpr ActivationFormat kRowFormat = ActivationFormat::kInt8;
  static constexpr size_t kPerPlane = 4;
  template <class Panel>
  static constexpr int32_t kZeroOf = Panel::kQuadZero;
  template <class Panel, size_t kPlane>
  static HWY_INLINE LaneVec Plane(LaneVec lanes) {
    return Panel::template Quads<kPlane>(lanes);
  }
};

#if HWY_TARGET <= HWY_AVX2
// Of nibbles only: two products of 15 · 127, 8 times, stay below 2^15; of 24 · 127, 4 times.
struct ShortQuadDot : QuadDot {
  using Sum = PairVec;
  template <class Panel>
  static constexpr size_t kRunOf = Panel::kQuadZero == kInt4Zero ? 32 : 16;
  static HWY_INLINE PairVec Add(SumVec x, LaneVec w, PairVec sums) {
    const hn::Repartition<uint8_t, TileTag> du8;
    const hn::Repartition<int8_t, TileTag> di8;
    return InThisOrder(hn::Add(
        sums, hn::SatWidenMulPairwiseAdd(PairTag(), hn::BitCast(du8, w), hn::BitCast(di8, x))));
  }
  static HWY_INLINE SumVec Widen(PairVec sums) {
    return hn::WidenMulPairwiseAdd(SumTag(), sums, hn::Set(PairTag(), 1));
  }
};
#endif

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// Instructions that are no part of the target's set, so the compiler can't be asked for them.
struct VnniPairDot : PairDot {
  static HWY_INLINE SumVec Add(SumVec x, PairVec w, SumVec sums) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sums.raw) : "v"(w.raw), "v"(x.raw));
    return sums;
  }
};
struct VnniQuadDot : QuadDot {
  using Sum = SumVec;
  template <class Panel>
  static constexpr size_t kRunOf = 0;
  static HWY_INLINE SumVec Add(SumVec x, LaneVec w, SumVec sums) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sums.raw) : "v"(w.raw), "v"(x.raw));
    return sums;
  }
};
#endif

template <class Sum, size_t kRows, size_t kPanels>
using TileSums = Sum[kRows][kPanels][kVecsPerPanel];

template <class Row>
HWY_INLINE const Row& RowOf(const TileRequest& request, size_t row) {
  return *reinterpret_cast<const Row*>(request.a + row * kBlockK);
}

// One plane of the lanes at inputs i … i + kPerLane of every row. `lanes` is one panel row of the
// first panel. Where registers are few every plane loads it again: they hold the sums and the
// planes, but not the lanes beside them.
template <class Panel, class Dot, size_t kPlane, size_t kRows, size_t kPanels>
HWY_INLINE void MultiplyPlane(const TileRequest& request, size_t i, const std::byte* lanes,
                              TileSums<typename Dot::Sum, kRows, kPanels>& sums) {
  typename Dot::Weights w[kPanels][kVecsPerPanel];
  if constexpr (kVecsPerPanel > 1) asm("" : "+r"(lanes));  // the compiler would load once
  OPST_UNROLL
  for (size_t p = 0; p < kPanels; ++p) {
    const auto* source = reinterpret_cast<const uint32_t*>(lanes + p * request.panel_stride);
    OPST_UNROLL
    for (size_t v = 0; v < kVecsPerPanel; ++v) {
      w[p][v] = Dot::template Plane<Panel, kPlane>(hn::LoadU(LaneTag(), source + v * kTileLanes));
    }
  }
  OPST_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    int32_t inputs;
    const auto& row = RowOf<typename Dot::Row>(request, r);
    std::memcpy(&inputs, row.values + i + Dot::kPerPlane * kPlane, sizeof(inputs));
    const SumVec x = hn::Set(SumTag(), inputs);
    OPST_UNROLL
    for (size_t p = 0; p < kPanels; ++p) {
      OPST_UNROLL
      for (size_t v = 0; v < kVecsPerPanel; ++v)
        sums[r][p][v] = Dot::Add(x, w[p][v], sums[r][p][v]);
    }
  }
}

template <class Panel, class Dot, size_t kRows, size_t kPanels, size_t... kPlane>
HWY_INLINE void MultiplyLanes(const TileRequest& request, const std::byte* row, size_t i,
                              TileSums<typename Dot::Sum, kRows, kPanels>& sums,
                              std::index_sequence<kPlane...>) {
  (MultiplyPlane<Panel, Dot, kPlane, kRows, kPanels>(request, i, row, sums), ...);
}

// Adds inputs [begin, end) to the sums and returns the panel row behind them.
template <class Panel, class Dot, size_t kRows, size_t kPanels>
HWY_INLINE const std::byte* MultiplyRun(const TileRequest& request, const std::byte* row,
                                        size_t begin, size_t end,
                                        TileSums<typename Dot::Sum, kRows, kPanels>& sums) {
  constexpr size_t kRowBytes = kPanelWidth * sizeof(uint32_t);
  constexpr auto kPlanes = std::make_index_sequence<Panel::kPerLane / Dot::kPerPlane>();
  for (size_t i = begin; i < end; i += Panel::kPerLane) {
    // Line by line: a burst of fetches fills the queue of misses, and the tile waits.
    if (request.prefetch.slab != nullptr) {
      PrefetchShare<kPanels>(request.prefetch, i, i + Panel::kPerLane);
    }
    MultiplyLanes<Panel, Dot, kRows, kPanels>(request, row, i, sums, kPlanes);
    row += kRowBytes;
  }
  return row;
}

// c += scale of the row · scale of the column · sum, for one group.
template <class Row, size_t kRows, size_t kPanels>
HWY_INLINE void AddGroup(const TileRequest& request, const std::byte* scales, size_t group,
                         const TileSums<SumVec, kRows, kPanels>& sums) {
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
    const TileVec scale = hn::Mul(w[p][v], hn::Set(d, RowOf<Row>(request, r).scales[group]));
    hn::StoreU(hn::MulAdd(hn::ConvertTo(d, sums[r][p][v]), scale, hn::LoadU(d, c)), d, c);
  });
}

template <class Panel, class Dot, size_t kRows, size_t kPanels>
HWY_INLINE void IntegerTile(const TileRequest& request) {
  using Row = typename Dot::Row;
  const std::byte* row = request.panels;
  for (size_t begin = 0; begin < request.k; begin += request.group) {
    const size_t end = begin + request.group;
    const size_t group = begin / request.group;
    TileSums<SumVec, kRows, kPanels> sums;
    ForAccumulators<kRows, kPanels>([&](size_t r, size_t p, size_t v) HWY_ATTR {
      const int32_t zeros = Dot::template kZeroOf<Panel> * RowOf<Row>(request, r).sums[group];
      sums[r][p][v] = hn::Set(SumTag(), -zeros);
    });
    constexpr size_t kRun = Dot::template kRunOf<Panel>;
    if constexpr (kRun == 0) {
      row = MultiplyRun<Panel, Dot, kRows, kPanels>(request, row, begin, end, sums);
    } else {
      for (size_t i = begin; i < end; i += kRun) {
        TileSums<typename Dot::Sum, kRows, kPanels> run;
        ForAccumulators<kRows, kPanels>([&](size_t r, size_t p, size_t v)
                                            HWY_ATTR { run[r][p][v] = hn::Zero(PairTag()); });
        row = MultiplyRun<Panel, Dot, kRows, kPanels>(request, row, i, i + kRun, run);
        ForAccumulators<kRows, kPanels>([&](size_t r, size_t p, size_t v) HWY_ATTR {
          sums[r][p][v] = hn::Add(sums[r][p][v], Dot::Widen(run[r][p][v]));
        });
      }
    }
    AddGroup<Row, kRows, kPanels>(request, row, group, sums);
    row += kPanelWidth * sizeof(uint16_t);
  }
}

template <class Panel, class Dot>
struct IntegerTileOf {
  static constexpr ActivationFormat kRowFormat = Dot::kRowFormat;
  template <size_t kRows, size_t kPanels>
  static void Run(const TileRequest& request) noexcept {
    IntegerTile<Panel, Dot, kRows, kPanels>(request);
  }
};

template <class Panel>
const TileKernels& IntegerTileKernelsOf(ActivationFormat activations) {
  [[maybe_unused]] const bool is_int8 = activations == ActivationFormat::kInt8;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (UsesVnni()) {
    return is_int8 ? TileKernelsOf<IntegerTileOf<Panel, VnniQuadDot>>()
                   : TileKernelsOf<IntegerTileOf<Panel, VnniPairDot>>();
  }
#endif
#if HWY_TARGET <= HWY_AVX2
  if constexpr (Panel::kPerLane == kInt4PerLane) {
    if (is_int8) return TileKernelsOf<IntegerTileOf<Panel, ShortQuadDot>>();
  }
#endif
  return TileKernelsOf<IntegerTileOf<Panel, PairDot>>();
}

// out[i] = scale · (code - zero) for the two inputs of every plane.
template <class Panel, size_t kPlane>
HWY_INLINE void DecodePlane(LaneVec lanes, TileVec scale, float* HWY_RESTRICT out) {
  const TileTag d;
  const SumTag di;
  const SumVec pairs = hn::BitCast(di, Panel::template Pairs<kPlane>(lanes));
  const SumVec zero = hn::Set(di, Panel::kZero);
  const SumVec even = hn::Sub(hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs)), zero);
  const SumVec odd = hn::Sub(hn::ShiftRight<16>(pairs), zero);
  hn::StoreU(hn::Mul(hn::ConvertTo(d, even), scale), d, out + 2 * kPlane * kPanelWidth);
  hn::StoreU(hn::Mul(hn::ConvertTo(d, odd), scale), d, out + (2 * kPlane + 1) * kPanelWidth);
}

template <class Panel, size_t... kPlane>
HWY_INLINE void DecodeLanes(const std::byte* row, size_t v, TileVec scale, float* HWY_RESTRICT out,
                            std::index_sequence<kPlane...>) {
  const LaneVec lanes =
      hn::LoadU(LaneTag(), reinterpret_cast<const uint32_t*>(row) + v * kTileLanes);
  (DecodePlane<Panel, kPlane>(lanes, scale, out + v * kTileLanes), ...);
}

template <class Panel>
void DecodeIntegerSlab(const std::byte* HWY_RESTRICT slab, size_t k, size_t group,
                       float* HWY_RESTRICT out) noexcept {
  constexpr size_t kRowBytes = kPanelWidth * sizeof(uint32_t);
  const size_t num_rows = group / Panel::kPerLane;
  for (size_t begin = 0; begin < k; begin += group) {
    const std::byte* scales = slab + num_rows * kRowBytes;
    for (size_t v = 0; v < kVecsPerPanel; ++v) {
      const auto* halves = reinterpret_cast<const uint16_t*>(scales) + v * kTileLanes;
      const TileVec scale = PromoteHalves(TileTag(), halves);
      for (size_t row = 0; row < num_rows; ++row) {
        DecodeLanes<Panel>(slab + row * kRowBytes, v, scale,
                           out + (begin + row * Panel::kPerLane) * kPanelWidth,
                           std::make_index_sequence<Panel::kPerLane / PairDot::kPerPlane>());
      }
    }
    slab = scales + kPanelWidth * sizeof(uint16_t);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
