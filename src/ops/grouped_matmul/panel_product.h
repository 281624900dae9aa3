// Policy half of the matrix product on one worker: which tile runs over which rows and panels. The
// tiles are in kernels/gemm_tile.h; tasks and threads are with the operators.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GROUPED_MATMUL_PANEL_PRODUCT_H_
#define OPST_OPS_GROUPED_MATMUL_PANEL_PRODUCT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "kernels/gemm_tile.h"
#include "opst/packed_weights.h"

namespace opst {

// Rows of A are kept in blocks of kBlockK inputs: element (row, k) of block b = k / 256 stands at
// b·block_stride + row·256 + k mod 256. Unused inputs of the last block up to an even count are 0.
// Rows that were rounded to integers stand in the same places (quantized_row.h).
struct BlockedRows {
  const float* data = nullptr;
  size_t block_stride = 0;  // floats between blocks, ≥ rows · 256
  size_t num_rows = 0;
};

// The setting `act`. With `auto`, products of at least kRowsBoundByArithmetic rows for each of
// their matrices, on average, take int8: fewer are bound by memory, and int16 costs nothing.
constexpr int64_t kRowsBoundByArithmetic = 4;
ActivationFormat ActivationFormatOf(const Config& config, int64_t num_rows, size_t num_matrices);

// Number of blocks of K inputs, and the inputs in block b.
inline size_t NumBlocks(size_t k) { return (k + kBlockK - 1) / kBlockK; }
inline size_t BlockLength(size_t k, size_t block) { return std::min(kBlockK, k - block * kBlockK); }

// Multiplies rows with consecutive panels of one matrix.
class PanelProduct {
 public:
  // Floats of scratch that one worker needs: two panels of one block, expanded to f32.
  static constexpr size_t kScratchFloats = kMaxTilePanels * kBlockK * kPanelWidth;

  // What rows of A are rounded to when weights are integers; float weights take them as they are.
  explicit PanelProduct(const PanelLayout& layout,
                        ActivationFormat activations = ActivationFormat::kF32);
  // Panels of floats that stand `panel_stride` bytes apart instead of one after the other.
  PanelProduct(const PanelLayout& layout, size_t panel_stride);

  // Must be called once for every row of a block of A with its `k` inputs, before it is multiplied.
  void PrepareRow(float* row, size_t k) const;
  // Whether that rounds the row to integers, and the bytes of a block that it then fills.
  bool quantizes() const { return tiles_.row_format != ActivationFormat::kF32; }
  size_t row_bytes() const;

  // Rows that one tile covers: with no more rows, weights are read in one sequential stream.
  size_t max_tile_rows() const { return tiles_.max_rows; }

  // c[r, 16·p + j] += Σ_k A[r, k]·panel(k, j) over all of K, for `num_panels` panels from `panels`.
  //   c        [rows, ldc] f32
  //   scratch  kScratchFloats
  void Multiply(const BlockedRows& a, const std::byte* panels, size_t num_panels, float* c,
                size_t ldc, float* scratch) const;

  // The same for one block of inputs only; `a_block` is that block of A.
  void MultiplyBlock(const float* a_block, size_t num_rows, size_t block, const std::byte* panels,
                     size_t num_panels, float* c, size_t ldc, float* scratch) const;

 private:
  // One or two panels of one block of inputs.
  struct Group {
    const std::byte* slab;
    size_t panel_stride;
    size_t num_panels;
    size_t k;
    TilePrefetch next;  // bytes_per_block still unset
  };
  // A pair of panels and a block of inputs in the walk over a matrix.
  struct Place {
    const std::byte* panels;  // of the walk
    size_t num_panels;
    size_t block;
    size_t panel;  // first of the pair
  };
  const std::byte* WeightsAfter(const Place& place, size_t num_rows) const;
  void MultiplyPair(const float* a_block, size_t num_rows, const Place& place, float* c, size_t ldc,
                    float* scratch) const;
  void MultiplyGroup(const TileKernels& tiles, const float* a_block, size_t num_rows,
                     const Group& group, float* c, size_t ldc) const;

  const PanelLayout layout_;
  const ActivationFormat activations_;
  const TileKernels& tiles_;
  const TileKernels& f32_tiles_;
  size_t panel_stride_;
};

}  // namespace opst

#endif  // OPST_OPS_GROUPED_MATMUL_PANEL_PRODUCT_H_
