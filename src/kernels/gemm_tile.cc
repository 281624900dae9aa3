// Chooses the tiles of a weight format; the tiles themselves are in gemm_tile-inl.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_tile.h"

#include <cassert>

#include "kernels/gemm_tile_formats.h"

namespace opst {

const TileKernels& GetTileKernels(WeightFormat format) {
  assert(!IsInteger(format));
  if (format == WeightFormat::kBf16) return TileKernelsBf16();
  if (format == WeightFormat::kF16) return TileKernelsF16();
  return TileKernelsF32();
}

const TileKernels& GetIntegerTileKernels(WeightFormat format, ActivationFormat activations) {
  assert(IsInteger(format) && activations != ActivationFormat::kF32);
  if (format == WeightFormat::kInt8) return TileKernelsInt8(activations);
  if (format == WeightFormat::kInt4) return TileKernelsInt4(activations);
  return TileKernelsMxfp4(activations);
}

void DecodeSlab(WeightType type, const std::byte* slab, size_t k, float* out) noexcept {
  switch (type.format) {
    case WeightFormat::kF32:
      return DecodeSlabF32(slab, k, out);
    case WeightFormat::kBf16:
      return DecodeSlabBf16(slab, k, out);
    case WeightFormat::kF16:
      return DecodeSlabF16(slab, k, out);
    case WeightFormat::kInt8:
      return DecodeSlabInt8(slab, k, static_cast<size_t>(type.group), out);
    case WeightFormat::kInt4:
      return DecodeSlabInt4(slab, k, static_cast<size_t>(type.group), out);
    case WeightFormat::kMxfp4:
      return DecodeSlabMxfp4(slab, k, static_cast<size_t>(type.group), out);
  }
}

}  // namespace opst
