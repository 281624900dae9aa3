// SIMD half of the matrix product: one tile template over weight format, rows and panels.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
//
// Registers of the largest tile (accumulators + weights + broadcast input):
//   AVX-512  12 rows x 2 panels   24 + 2 + 1 of 32 zmm   24 FMA for 20 loads (14 without operands)
//   AVX2      6 rows x 1 panel    12 + 2 + 1 of 16 ymm   12 FMA for  8 loads
//   NEON      6 rows x 1 panel    24 + 4 + 1 of 32 q
//   SSE2      3 rows x 1 panel    12 + 4     of 16 xmm   (baseline: correct, not fast)
// Both big tiles do more FMAs per load than the two load ports could starve.

#if defined(OPST_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPST_KERNELS_GEMM_TILE_INL_H_
#undef OPST_KERNELS_GEMM_TILE_INL_H_
#else
#define OPST_KERNELS_GEMM_TILE_INL_H_
#endif

#include <cstdint>
#include <utility>

#include "hwy/highway.h"
#include "kernels/gemm_tile.h"
#include "kernels/half-inl.h"
#include "kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using TileTag = hn::CappedTag<float, kPanelWidth>;
using TileVec = hn::Vec<TileTag>;
constexpr size_t kTileLanes = hn::MaxLanes(TileTag());
constexpr size_t kVecsPerPanel = kPanelWidth / kTileLanes;
constexpr size_t kAccumulators = HWY_TARGET <= HWY_AVX3 || HWY_TARGET_IS_NEON ? 24 : 12;
constexpr size_t kTileRows = kVecsPerPanel == 1 ? kMaxTileRows : kAccumulators / kVecsPerPanel;

// A decoder turns kStep inputs of one panel row into f32 vectors w[step][vec].
struct F32Decoder {
  static constexpr size_t kStep = 1;
  static constexpr size_t kRowBytes = 64;
  static HWY_INLINE void Load(const std::byte* row, TileVec (&w)[kStep][kVecsPerPanel]) {
    const TileTag d;
    const float* values = reinterpret_cast<const float*>(row);
    OPST_UNROLL
    for (size_t v = 0; v < kVecsPerPanel; ++v) w[0][v] = hn::LoadU(d, values + v * kTileLanes);
  }
};

// bf16 is the upper half of f32: the odd input is masked in place, the even one shifted up.
struct Bf16Decoder {
  static constexpr size_t kStep = 2;
  static constexpr size_t kRowBytes = 64;
  static HWY_INLINE void Load(const std::byte* row, TileVec (&w)[kStep][kVecsPerPanel]) {
    const TileTag d;
    const hn::RebindToUnsigned<TileTag> du;
    const uint32_t* pairs = reinterpret_cast<const uint32_t*>(row);
    OPST_UNROLL
    for (size_t v = 0; v < kVecsPerPanel; ++v) {
      const auto pair = hn::LoadU(du, pairs + v * kTileLanes);
      w[0][v] = hn::BitCast(d, hn::ShiftLeft<16>(pair));
      w[1][v] = hn::BitCast(d, hn::And(pair, hn::Set(du, 0xFFFF0000u)));
    }
  }
};

struct F16Decoder {
  static constexpr size_t kStep = 1;
  static constexpr size_t kRowBytes = 32;
  static HWY_INLINE void Load(const std::byte* row, TileVec (&w)[kStep][kVecsPerPanel]) {
    const TileTag d;
    const uint16_t* values = reinterpret_cast<const uint16_t*>(row);
    OPST_UNROLL
    for (size_t v = 0; v < kVecsPerPanel; ++v) w[0][v] = PromoteHalves(d, values + v * kTileLanes);
  }
};

// Accumulators of a tile: rows x panels x vectors of a panel.
template <size_t kRows, size_t kPanels>
using TileAccumulators = TileVec[kRows][kPanels][kVecsPerPanel];

// Calls body(row, panel, vector) for every accumulator, fully unrolled.
template <size_t kRows, size_t kPanels, class Body>
HWY_INLINE void ForAccumulators(Body body) {
  OPST_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    OPST_UNROLL
    for (size_t p = 0; p < kPanels; ++p) {
      OPST_UNROLL
      for (size_t v = 0; v < kVecsPerPanel; ++v) body(r, p, v);
    }
  }
}

// AVX-512 multiplies by a broadcast memory operand. Half of the rows use it, once per panel, in
// place of one broadcast instruction for both: 32 instructions and 20 loads for 24 FMAs instead of
// 38 and 14. The tile was bound by issue slots where a core is shared with a hyper-thread neighbour
// (+9 %); all rows that way would be bound by the two load ports.
constexpr bool kHasBroadcastOperands = HWY_TARGET <= HWY_AVX3;
constexpr bool BroadcastsInOperand(size_t row, size_t panels) {
  return kHasBroadcastOperands && panels > 1 && row % 2 == 1;
}

// The same pointer, but the compiler can't know it and so can't merge the two loads again.
HWY_INLINE const float* Alias(const float* pointer) {
  if constexpr (kHasBroadcastOperands) asm("" : "+r"(pointer));
  return pointer;
}

// Multiplies kStep inputs from i on into the accumulators.
template <class Decoder, size_t kRows, size_t kPanels>
HWY_INLINE void MultiplyStep(const TileRequest& request, const float* alias, size_t i,
                             TileAccumulators<kRows, kPanels>& acc) {
  const TileTag d;
  TileVec w[kPanels][Decoder::kStep][kVecsPerPanel];
  const std::byte* row = request.panels + i / Decoder::kStep * Decoder::kRowBytes;
  OPST_UNROLL
  for (size_t p = 0; p < kPanels; ++p) Decoder::Load(row + p * request.panel_stride, w[p]);
  OPST_UNROLL
  for (size_t step = 0; step < Decoder::kStep; ++step) {
    OPST_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const size_t at = r * kBlockK + i + step;
      OPST_UNROLL
      for (size_t p = 0; p < kPanels; ++p) {
        const bool reads_alias = p > 0 && BroadcastsInOperand(r, kPanels);
        const TileVec input = hn::Set(d, reads_alias ? alias[at] : request.a[at]);
        OPST_UNROLL
        for (size_t v = 0; v < kVecsPerPanel; ++v) {
          acc[r][p][v] = hn::MulAdd(input, w[p][step][v], acc[r][p][v]);
        }
      }
    }
  }
}

// Multiplies inputs [begin, end) into the accumulators.
template <class Decoder, size_t kRows, size_t kPanels>
HWY_INLINE void MultiplyInputs(const TileRequest& request, size_t begin, size_t end,
                               TileAccumulators<kRows, kPanels>& acc) {
  const float* alias = Alias(request.a);
  // Loop control was 3 of 23 instructions of the AVX2 tile. Sanitizers check every load, and the
  // compiler then takes minutes for what is unrolled; the arithmetic is the same.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kUnroll = 1;
#else
  constexpr size_t kUnroll = 4;
#endif
  size_t i = begin;
  for (; i + kUnroll * Decoder::kStep <= end; i += kUnroll * Decoder::kStep) {
    OPST_UNROLL
    for (size_t u = 0; u < kUnroll; ++u) {
      MultiplyStep<Decoder, kRows, kPanels>(request, alias, i + u * Decoder::kStep, acc);
    }
  }
  for (; i < end; i += Decoder::kStep) {
    MultiplyStep<Decoder, kRows, kPanels>(request, alias, i, acc);
  }
}

// What is due while inputs [begin_input, end_input) are computed.
template <size_t kPanels>
HWY_INLINE void PrefetchShare(const TilePrefetch& prefetch, size_t begin_input, size_t end_input) {
  constexpr size_t kLine = 64;
  const size_t first_byte = begin_input * prefetch.bytes_per_block / kBlockK;
  const size_t begin = (first_byte + kLine - 1) / kLine * kLine;
  const size_t end = end_input * prefetch.bytes_per_block / kBlockK;
  for (size_t at = begin; at < end; at += kLine) {
    OPST_UNROLL
    for (size_t p = 0; p < kPanels; ++p) {
      __builtin_prefetch(prefetch.slab + p * prefetch.panel_stride + at, 0, 2);  // 2 = into L2
    }
  }
}

template <class Decoder, size_t kRows, size_t kPanels>
HWY_INLINE void Tile(const TileRequest& request) {
  const TileTag d;
  TileAccumulators<kRows, kPanels> acc;
  ForAccumulators<kRows, kPanels>([&](size_t r, size_t p, size_t v) HWY_ATTR {
    acc[r][p][v] = hn::LoadU(d, request.c + r * request.ldc + p * kPanelWidth + v * kTileLanes);
  });
  if (request.prefetch.slab == nullptr) {
    MultiplyInputs<Decoder, kRows, kPanels>(request, 0, request.k, acc);
  } else {
    constexpr size_t kChunk = 16;  // inputs: 8 cost 3 % of the tile
    for (size_t begin = 0; begin < request.k; begin += kChunk) {
      const size_t end = request.k < begin + kChunk ? request.k : begin + kChunk;
      PrefetchShare<kPanels>(request.prefetch, begin, end);
      MultiplyInputs<Decoder, kRows, kPanels>(request, begin, end, acc);
    }
  }
  ForAccumulators<kRows, kPanels>([&](size_t r, size_t p, size_t v) HWY_ATTR {
    hn::StoreU(acc[r][p][v], d, request.c + r * request.ldc + p * kPanelWidth + v * kTileLanes);
  });
}

// A kind of tile has a static Run<kRows, kPanels> and kRowFormat, how its rows of A must stand.
template <class Decoder>
struct FloatTile {
  static constexpr ActivationFormat kRowFormat = ActivationFormat::kF32;
  template <size_t kRows, size_t kPanels>
  static void Run(const TileRequest& request) noexcept {
    Tile<Decoder, kRows, kPanels>(request);
  }
};

template <class Kind, size_t kRows>
constexpr std::array<TileFn, kMaxTilePanels> TilesOfHeight() {
  if constexpr (kRows > kTileRows) {
    return {nullptr, nullptr};
  } else if constexpr (kRows * kVecsPerPanel * 2 > kAccumulators) {
    return {&Kind::template Run<kRows, 1>, nullptr};
  } else {
    return {&Kind::template Run<kRows, 1>, &Kind::template Run<kRows, 2>};
  }
}

template <class Kind, size_t... kIndex>
constexpr TileKernels MakeTileKernels(std::index_sequence<kIndex...>) {
  return TileKernels{Kind::kRowFormat, kTileRows, {TilesOfHeight<Kind, kIndex + 1>()...}};
}

template <class Kind>
const TileKernels& TileKernelsOf() {
  static constexpr TileKernels kTable =
      MakeTileKernels<Kind>(std::make_index_sequence<kMaxTileRows>());
  return kTable;
}

template <class Decoder>
void DecodeSlabOf(const std::byte* HWY_RESTRICT slab, size_t k, float* HWY_RESTRICT out) noexcept {
  const TileTag d;
  for (size_t i = 0; i < k; i += Decoder::kStep) {
    TileVec w[Decoder::kStep][kVecsPerPanel];
    Decoder::Load(slab + i / Decoder::kStep * Decoder::kRowBytes, w);
    OPST_UNROLL
    for (size_t step = 0; step < Decoder::kStep; ++step) {
      OPST_UNROLL
      for (size_t v = 0; v < kVecsPerPanel; ++v) {
        hn::StoreU(w[step][v], d, out + (i + step) * kPanelWidth + v * kTileLanes);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
