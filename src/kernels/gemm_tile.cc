// Chooses the tiles of a weight format; the tiles themselves are in gemm_tile-inl.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_tile.h"

#include "kernels/gemm_tile_formats.h"

namespace opst {

const TileKernels& GetTileKernels(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return TileKernelsBf16();
    case WeightFormat::kF16:
      return TileKernelsF16();
    case WeightFormat::kF32:
      break;
  }
  return TileKernelsF32();
}

void DecodeSlab(WeightFormat format, const std::byte* slab, size_t k, float* out) noexcept {
  switch (format) {
    case WeightFormat::kBf16:
      return DecodeSlabBf16(slab, k, out);
    case WeightFormat::kF16:
      return DecodeSlabF16(slab, k, out);
    case WeightFormat::kF32:
      return DecodeSlabF32(slab, k, out);
  }
}

}  // namespace opst
