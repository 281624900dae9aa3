// Runs tiles of balanced height over panels, in the loop order that suits the number of rows.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_matmul/panel_product.h"

namespace opst {

PanelProduct::PanelProduct(const PanelLayout& layout)
    : PanelProduct(layout, layout.panel_bytes()) {}

PanelProduct::PanelProduct(const PanelLayout& layout, size_t panel_stride)
    : layout_(layout),
      tiles_(GetTileKernels(layout.format)),
      f32_tiles_(GetTileKernels(WeightFormat::kF32)),
      panel_stride_(panel_stride) {}

void PanelProduct::Multiply(const BlockedRows& a, const std::byte* panels, size_t num_panels,
                            float* c, size_t ldc, float* scratch) const {
  const size_t num_blocks = NumBlocks(static_cast<size_t>(layout_.in));
  if (a.num_rows <= tiles_.max_rows) {
    // One tile of rows: go down each pair of panels to the end, so that memory streams.
    for (size_t panel = 0; panel < num_panels; panel += kMaxTilePanels) {
      const size_t group = std::min(kMaxTilePanels, num_panels - panel);
      for (size_t block = 0; block < num_blocks; ++block) {
        MultiplyBlock(a.data + block * a.block_stride, a.num_rows, block,
                      panels + panel * panel_stride_, group, c + panel * kPanelWidth, ldc, scratch);
      }
    }
    return;
  }
  for (size_t block = 0; block < num_blocks; ++block) {
    MultiplyBlock(a.data + block * a.block_stride, a.num_rows, block, panels, num_panels, c, ldc,
                  scratch);
  }
}

// Where the weights after panel pair `panel` of this block begin: the next pair, or the next block
// of the first one; null at the end.
const std::byte* PanelProduct::NextSlab(size_t block, const std::byte* panels, size_t num_panels,
                                        size_t panel) const {
  const size_t next = panel + kMaxTilePanels;
  if (next < num_panels) {
    return panels + next * panel_stride_ +
           layout_.slab_bytes(static_cast<int64_t>(block * kBlockK));
  }
  if (block + 1 == NumBlocks(static_cast<size_t>(layout_.in))) return nullptr;
  return panels + layout_.slab_bytes(static_cast<int64_t>((block + 1) * kBlockK));
}

void PanelProduct::MultiplyBlock(const float* a_block, size_t num_rows, size_t block,
                                 const std::byte* panels, size_t num_panels, float* c, size_t ldc,
                                 float* scratch) const {
  const size_t k = BlockLength(static_cast<size_t>(layout_.in), block);
  const size_t slab_offset = layout_.slab_bytes(static_cast<int64_t>(block * kBlockK));
  const bool has_many_rows = num_rows > tiles_.max_rows;
  // With several tiles of rows the slab is expanded once instead of in every tile: 8 % of the
  // tile's operations are conversions otherwise.
  const bool expands = layout_.format != WeightFormat::kF32 && has_many_rows;
  for (size_t panel = 0; panel < num_panels; panel += kMaxTilePanels) {
    const std::byte* slab = panels + panel * panel_stride_ + slab_offset;
    Group group{slab, panel_stride_, std::min(kMaxTilePanels, num_panels - panel), k, {}};
    if (has_many_rows) {
      group.next = {NextSlab(block, panels, num_panels, panel), panel_stride_, 0};
    }
    if (expands) {
      group.slab = reinterpret_cast<const std::byte*>(scratch);
      group.panel_stride = kBlockK * kPanelWidth * sizeof(float);
      // The zero that pairs with an odd last input is multiplied as in the bf16 tile: it turns a
      // sum of -0 into +0, and a row's bits must not depend on which of the two paths it takes.
      if (layout_.format == WeightFormat::kBf16) group.k += k % 2;
      for (size_t p = 0; p < group.num_panels; ++p) {
        DecodeSlab(layout_.format, slab + p * panel_stride_, k,
                   scratch + p * kBlockK * kPanelWidth);
      }
    }
    MultiplyGroup(expands ? f32_tiles_ : tiles_, a_block, num_rows, group, c + panel * kPanelWidth,
                  ldc);
  }
}

// All rows against one or two panels. Tiles differ by at most one row (13 rows = 7 + 6, not 12 +
// 1), since a low tile loads as many weights as a high one. Every tile fetches its share of the
// weights that come next.
void PanelProduct::MultiplyGroup(const TileKernels& tiles, const float* a_block, size_t num_rows,
                                 const Group& group, float* c, size_t ldc) const {
  const size_t num_tiles = (num_rows + tiles.max_rows - 1) / tiles.max_rows;
  const size_t num_chunks = (group.k + kPrefetchChunk - 1) / kPrefetchChunk;
  const size_t slab_bytes = layout_.slab_bytes(static_cast<int64_t>(group.k));
  constexpr size_t kLine = 64;
  const size_t share = slab_bytes / num_tiles / num_chunks / kLine * kLine + kLine;
  size_t row = 0;
  for (size_t tile = 0; tile < num_tiles; ++tile) {
    const size_t height = num_rows / num_tiles + (tile < num_rows % num_tiles ? 1 : 0);
    const size_t step = std::min(group.num_panels, tiles.PanelsPerTile(height));
    for (size_t p = 0; p < group.num_panels; p += step) {
      TileRequest request{a_block + row * kBlockK,
                          group.slab + p * group.panel_stride,
                          group.panel_stride,
                          group.k,
                          c + row * ldc + p * kPanelWidth,
                          ldc,
                          {}};
      const size_t done = tile * num_chunks * share;
      if (group.next.slab != nullptr && done < slab_bytes) {
        request.prefetch = {group.next.slab + p * group.next.panel_stride + done,
                            group.next.panel_stride, share};
      }
      tiles.tile[height - 1][step - 1](request);
    }
    row += height;
  }
}

}  // namespace opst
