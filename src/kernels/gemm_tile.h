// The register tiles of every matrix product: function tables by weight format. No blocking, no
// threads: those are in ops/grouped_matmul/.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_GEMM_TILE_H_
#define OPST_KERNELS_GEMM_TILE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "opst/packed_weights.h"

namespace opst {

// Inputs k are walked in blocks of 256: a block of 12 rows of A is 12 KB and a block of one f32
// panel 16 KB, so that both stay in a 32 KB L1 while the tile runs over them.
// A is stored block by block with rows exactly this far apart, which makes every row of a tile one
// base register plus a constant displacement.
constexpr size_t kBlockK = 256;
constexpr size_t kPanelWidth = static_cast<size_t>(PanelLayout::kWidth);
constexpr size_t kMaxTileRows = 12;
constexpr size_t kMaxTilePanels = 2;

// Weights that the tile after this one will read: fetched into L2 while this one computes. The tile
// itself may be bound by arithmetic, but a slab that begins on a new page is not seen coming by the
// hardware.
struct TilePrefetch {
  const std::byte* slab = nullptr;  // of the first panel; null = nothing
  size_t panel_stride = 0;
  size_t bytes_per_block = 0;  // of each panel while kBlockK inputs are computed
};

// c[r · ldc + 16 p + j] += Σ_k a[r · kBlockK + k] · panel p (k, j), k ascending, one chain
// of multiply-adds per element, for rows r, panels p and lanes j of the tile. Product and sum are
// rounded once together, on SSE2 one after the other.
struct TileRequest {
  const float* a;           // [rows, kBlockK]; for bf16 and odd k, a[r][k] must be finite
  const std::byte* panels;  // the first panel's slab for these inputs
  size_t panel_stride;      // bytes to the next panel's
  size_t k;                 // inputs, at most kBlockK
  float* c;                 // [rows, ldc]
  size_t ldc;
  TilePrefetch prefetch;
  size_t group = 0;  // of integer weights
};
using TileFn = void (*)(const TileRequest& request) noexcept;

// What rows of A are rounded to when weights are integers.
enum class ActivationFormat : uint8_t { kF32, kInt16, kInt8 };

struct TileKernels {
  // How rows of A must stand: floats, or rows of quantized_row.h.
  ActivationFormat row_format = ActivationFormat::kF32;
  size_t max_rows = 0;  // largest tile of the chosen instruction set
  // tile[rows - 1][panels - 1]; null where the accumulators would not fit the registers.
  std::array<std::array<TileFn, kMaxTilePanels>, kMaxTileRows> tile{};

  // Panels that one call covers for a tile of this height.
  size_t PanelsPerTile(size_t rows) const { return tile[rows - 1][1] != nullptr ? 2 : 1; }
};

// The tiles of the best instruction set allowed (see isa.h), of f32, bf16 or f16 weights.
const TileKernels& GetTileKernels(WeightFormat format);

// Tiles of integer weights for activations of 16 or 8 bits; `a` holds an Int16Row or Int8Row
// every kBlockK floats:
//   c[r · ldc + 16 p + j] += Σ_g scale(r, g) · scale(p, j, g) · Σ_{k in g} q(r, k) · q(p, j, k)
// Sums inside a group are exact; groups g are added in ascending order, in f32. So the bits are
// those of the numbers q, whichever way they stand: where an instruction set has nothing faster for
// 8 bits, the tiles take rows of int16.
const TileKernels& GetIntegerTileKernels(WeightFormat format, ActivationFormat activations);

// Expands `k` inputs of one panel to f32 panel rows: out [k, 16], k rounded up to a pair of bf16 or
// a group of integers. Exact but for integers, where scale · q is rounded once. Pays when several
// tiles of rows run over the same slab.
void DecodeSlab(WeightType type, const std::byte* slab, size_t k, float* out) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_GEMM_TILE_H_
