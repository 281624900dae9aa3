// Instantiates the tiles of mxfp4 weights for every instruction set.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_tile_formats.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_tile_mxfp4.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/integer_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opst {
namespace HWY_NAMESPACE {
namespace {
const TileKernels& Tiles(ActivationFormat activations) {
  return IntegerTileKernelsOf<Mxfp4Panel>(activations);
}
void Decode(const std::byte* slab, size_t k, size_t group, float* out) {
  DecodeIntegerSlab<Mxfp4Panel>(slab, k, group, out);
}
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
const TileKernels& TileKernelsMxfp4(ActivationFormat activations) {
  return HWY_DYNAMIC_DISPATCH(Tiles)(activations);
}
void DecodeSlabMxfp4(const std::byte* slab, size_t k, size_t group, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Decode)(slab, k, group, out);
}
}  // namespace opst
#endif  // HWY_ONCE
