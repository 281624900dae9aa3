// Runs tiles of balanced height over panels, in the loop order that suits the number of rows.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_matmul/panel_product.h"

#include "kernels/quantized_row.h"

namespace opst {

namespace {

const TileKernels& TilesOf(const PanelLayout& layout, ActivationFormat activations) {
  if (!IsInteger(layout.format)) return GetTileKernels(layout.format);
  if (activations == ActivationFormat::kF32) return GetTileKernels(WeightFormat::kF32);
  return GetIntegerTileKernels(layout.format, activations);
}

}  // namespace

ActivationFormat ActivationFormatOf(const Config& config, int64_t num_rows, size_t num_matrices) {
  const std::string_view name = config.GetChoice("act");
  if (config.GetBool("force_fp32") || name == "f32") return ActivationFormat::kF32;
  const bool has_many_rows =
      num_rows >= kRowsBoundByArithmetic * static_cast<int64_t>(num_matrices);
  const bool is_int8 = name == "int8" || (name == "auto" && has_many_rows);
  return is_int8 ? ActivationFormat::kInt8 : ActivationFormat::kInt16;
}

PanelProduct::PanelProduct(const PanelLayout& layout, ActivationFormat activations)
    : layout_(layout),
      activations_(activations),
      tiles_(TilesOf(layout, activations)),
      f32_tiles_(GetTileKernels(WeightFormat::kF32)),
      panel_stride_(layout.panel_bytes()) {}

PanelProduct::PanelProduct(const PanelLayout& layout, size_t panel_stride) : PanelProduct(layout) {
  panel_stride_ = panel_stride;
}

void PanelProduct::PrepareRow(float* row, size_t k) const {
  const auto group = static_cast<size_t>(layout_.group);
  if (tiles_.row_format == ActivationFormat::kInt8) {
    QuantizeToInt8(row, k, group, layout_.format);
  } else if (tiles_.row_format == ActivationFormat::kInt16) {
    const bool is_int8 = activations_ == ActivationFormat::kInt8;
    QuantizeToInt16(row, k, group, is_int8 ? kLargestInt8 : kLargestInt16);
  }
}

size_t PanelProduct::row_bytes() const {
  switch (tiles_.row_format) {
    case ActivationFormat::kF32:
      break;
    case ActivationFormat::kInt16:
      return sizeof(Int16Row);
    case ActivationFormat::kInt8:
      return sizeof(Int8Row);
  }
  return kBlockK * sizeof(float);
}

void PanelProduct::Multiply(const BlockedRows& a, const std::byte* panels, size_t num_panels,
                            float* c, size_t ldc, float* scratch) const {
  const size_t num_blocks = NumBlocks(static_cast<size_t>(layout_.in));
  if (a.num_rows <= tiles_.max_rows) {
    // One tile of rows: go down each pair of panels to the end, so that memory streams.
    for (size_t panel = 0; panel < num_panels; panel += kMaxTilePanels) {
      for (size_t block = 0; block < num_blocks; ++block) {
        MultiplyPair(a.data + block * a.block_stride, a.num_rows,
                     {panels, num_panels, block, panel}, c, ldc, scratch);
      }
    }
    return;
  }
  for (size_t block = 0; block < num_blocks; ++block) {
    MultiplyBlock(a.data + block * a.block_stride, a.num_rows, block, panels, num_panels, c, ldc,
                  scratch);
  }
}

void PanelProduct::MultiplyBlock(const float* a_block, size_t num_rows, size_t block,
                                 const std::byte* panels, size_t num_panels, float* c, size_t ldc,
                                 float* scratch) const {
  for (size_t panel = 0; panel < num_panels; panel += kMaxTilePanels) {
    MultiplyPair(a_block, num_rows, {panels, num_panels, block, panel}, c, ldc, scratch);
  }
}

// The weights that come after a pair of panels of a block; null at the end. Many rows walk a block
// across all panels. Few rows walk a pair down to its end: one or two rows of floats are bound by
// memory, and their panels are streams so long that the hardware sees them coming, so that fetches
// of ours only cost (a quarter of f32's bandwidth); of integers a panel is 18 KB at K = 2048, and
// fetching one block ahead gave int8 a quarter, int4 a sixth more bandwidth. Where arithmetic takes
// as long as memory the two must overlap: 8 rows of bf16 were 12 % faster.
const std::byte* PanelProduct::WeightsAfter(const Place& place, size_t num_rows) const {
  const bool has_many_rows = num_rows > tiles_.max_rows;
  const bool is_last_panel = place.panel + kMaxTilePanels >= place.num_panels;
  const bool is_last_block = place.block + 1 == NumBlocks(static_cast<size_t>(layout_.in));
  size_t block = place.block;
  size_t panel = place.panel;
  if (is_last_panel && is_last_block) return nullptr;
  if (has_many_rows) {
    block += is_last_panel ? 1 : 0;
    panel = is_last_panel ? 0 : panel + kMaxTilePanels;
  } else {
    if (!quantizes() && num_rows < static_cast<size_t>(kRowsBoundByArithmetic)) return nullptr;
    panel += is_last_block ? kMaxTilePanels : 0;
    block = is_last_block ? 0 : block + 1;
  }
  return place.panels + panel * panel_stride_ +
         layout_.slab_bytes(static_cast<int64_t>(block * kBlockK));
}

void PanelProduct::MultiplyPair(const float* a_block, size_t num_rows, const Place& place, float* c,
                                size_t ldc, float* scratch) const {
  const bool has_many_rows = num_rows > tiles_.max_rows;
  // With several tiles of rows the slab is expanded once instead of in every tile: 8 % of the
  // tile's operations are conversions otherwise. Integers meet f32 rows only that way.
  const bool expands = IsInteger(layout_.format)
                           ? !quantizes()
                           : layout_.format != WeightFormat::kF32 && has_many_rows;
  const std::byte* slab = place.panels + place.panel * panel_stride_ +
                          layout_.slab_bytes(static_cast<int64_t>(place.block * kBlockK));
  Group group{slab,
              panel_stride_,
              std::min(kMaxTilePanels, place.num_panels - place.panel),
              BlockLength(static_cast<size_t>(layout_.in), place.block),
              {WeightsAfter(place, num_rows), panel_stride_, 0}};
  if (expands) {
    group.slab = reinterpret_cast<const std::byte*>(scratch);
    group.panel_stride = kBlockK * kPanelWidth * sizeof(float);
    for (size_t p = 0; p < group.num_panels; ++p) {
      DecodeSlab(layout_.type(), slab + p * panel_stride_, group.k,
                 scratch + p * kBlockK * kPanelWidth);
    }
    // The zero that pairs with an odd last input is multiplied as in the bf16 tile: it turns a
    // sum of -0 into +0, and a row's bits must not depend on which of the two paths it takes.
    if (layout_.format == WeightFormat::kBf16) group.k += group.k % 2;
  }
  MultiplyGroup(expands ? f32_tiles_ : tiles_, a_block, num_rows, group,
                c + place.panel * kPanelWidth, ldc);
}

// All rows against one or two panels. Tiles differ by at most one row (13 rows = 7 + 6, not 12 +
// 1), since a low tile loads as many weights as a high one. Every tile fetches its share of the
// weights that come next.
void PanelProduct::MultiplyGroup(const TileKernels& tiles, const float* a_block, size_t num_rows,
                                 const Group& group, float* c, size_t ldc) const {
  const size_t num_tiles = (num_rows + tiles.max_rows - 1) / tiles.max_rows;
  const size_t slab_bytes = layout_.slab_bytes(static_cast<int64_t>(group.k));
  const size_t share = slab_bytes / num_tiles + 1;
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
                          {},
                          static_cast<size_t>(layout_.group)};
      const size_t done = tile * share;
      if (group.next.slab != nullptr && done < slab_bytes) {
        request.prefetch = {group.next.slab + p * group.next.panel_stride + done,
                            group.next.panel_stride, share * kBlockK / group.k};
      }
      tiles.tile[height - 1][step - 1](request);
    }
    row += height;
  }
}

}  // namespace opst
