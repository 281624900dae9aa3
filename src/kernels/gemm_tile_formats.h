// One pair of functions per weight format, each instantiated in a file of its own to split the
// compile time; used by gemm_tile.cc only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_GEMM_TILE_FORMATS_H_
#define OPST_KERNELS_GEMM_TILE_FORMATS_H_

#include "kernels/gemm_tile.h"

namespace opst {

const TileKernels& TileKernelsF32();
const TileKernels& TileKernelsBf16();
const TileKernels& TileKernelsF16();
const TileKernels& TileKernelsInt8(ActivationFormat activations);
const TileKernels& TileKernelsInt4(ActivationFormat activations);
const TileKernels& TileKernelsMxfp4(ActivationFormat activations);
void DecodeSlabF32(const std::byte* slab, size_t k, float* out) noexcept;
void DecodeSlabBf16(const std::byte* slab, size_t k, float* out) noexcept;
void DecodeSlabF16(const std::byte* slab, size_t k, float* out) noexcept;
void DecodeSlabInt8(const std::byte* slab, size_t k, size_t group, float* out) noexcept;
void DecodeSlabInt4(const std::byte* slab, size_t k, size_t group, float* out) noexcept;
void DecodeSlabMxfp4(const std::byte* slab, size_t k, size_t group, float* out) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_GEMM_TILE_FORMATS_H_
