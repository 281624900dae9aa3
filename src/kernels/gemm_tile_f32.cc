// Instantiates the tiles of f32 weights for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_tile_formats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_tile_f32.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {
namespace {
const TileKernels& Tiles() { return TileKernelsOf<FloatTile<F32Decoder>>(); }
void Decode(const std::byte* slab, size_t k, float* out) { DecodeSlabOf<F32Decoder>(slab, k, out); }
}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace opst
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opst {
namespace {
HWY_EXPORT(Tiles);
HWY_EXPORT(Decode);
}  // namespace
const TileKernels& TileKernelsF32() { return HWY_DYNAMIC_DISPATCH(Tiles)(); }
void DecodeSlabF32(const std::byte* slab, size_t k, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Decode)(slab, k, out);
}
}  // namespace opst
#endif  // HWY_ONCE
