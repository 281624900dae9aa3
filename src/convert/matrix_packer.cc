// Cuts matrices into slices of whole panels and packs them from the mapped source.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/matrix_packer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "io/safetensors_dtype.h"
#include "kernels/gemm_tile.h"
#include "kernels/rows.h"
#include "opst/pack.h"

namespace opst {
namespace {

// Packed at a time; source pages of a slice are dropped with it.
constexpr size_t kSliceBytes = size_t{32} << 20;
constexpr uint64_t kCopyBytes = uint64_t{32} << 20;

// Copies rows [begin, end) of a part with strides to `out`, one below the other.
template <typename Element>
void GatherRows(const ModelSource& checkpoint, const SourceRows& part, int64_t begin, int64_t end,
                std::byte* out) {
  const SourceStrides& strides = *part.strides;
  const int64_t first = strides.first + begin * strides.row;
  const int64_t last =
      strides.first + (end - 1) * strides.row + (part.columns - 1) * strides.column;
  const SourceBytes lent =
      checkpoint.Read(*part.tensor, static_cast<uint64_t>(first) * sizeof(Element),
                      static_cast<uint64_t>(last + 1 - first) * sizeof(Element));
  const std::byte* source = lent.bytes().data();
  // Columns outside: their elements stand far apart, rows' close together.
  for (int64_t column = 0; column < part.columns; ++column) {
    for (int64_t row = 0; row < end - begin; ++row) {
      const int64_t from = row * strides.row + column * strides.column;
      std::memcpy(out + static_cast<size_t>(row * part.columns + column) * sizeof(Element),
                  source + static_cast<size_t>(from) * sizeof(Element), sizeof(Element));
    }
  }
}

// Rows [begin, end) of a stack of source parts, lent from the checkpoint. The slice is one tensor:
// parts are read one by one and copied below each other when it spans several.
class RowSlice {
 public:
  RowSlice(const ModelSource& checkpoint, std::span<const SourceRows> parts, int64_t begin,
           int64_t end) {
    const int64_t columns = parts.front().columns;
    const DType dtype = *DTypeFromSafetensors(parts.front().tensor->tensor->dtype);
    const uint64_t row_bytes = static_cast<uint64_t>(columns) * ByteSize(dtype);
    int64_t part_begin = 0;
    for (const SourceRows& part : parts) {
      const int64_t from = std::max(begin, part_begin);
      const int64_t to = std::min(end, part_begin + part.num_rows);
      if (from < to && part.strides) {
        gathered_.emplace_back(static_cast<size_t>(to - from) * row_bytes);
        const auto gather = ByteSize(dtype) == 2 ? GatherRows<uint16_t> : GatherRows<uint32_t>;
        gather(checkpoint, part, from - part_begin, to - part_begin, gathered_.back().data());
        pieces_.emplace_back(gathered_.back().data(), static_cast<size_t>(to - from) * row_bytes);
      } else if (from < to) {
        const auto first = static_cast<uint64_t>(part.first_row + from - part_begin);
        lent_.push_back(checkpoint.Read(*part.tensor, first * row_bytes,
                                        static_cast<uint64_t>(to - from) * row_bytes));
        pieces_.push_back(lent_.back().bytes());
      }
      part_begin += part.num_rows;
    }
    const std::byte* data = pieces_.empty() ? nullptr : pieces_.front().data();
    if (pieces_.size() > 1) {
      joined_ = AlignedBuffer(static_cast<size_t>(end - begin) * row_bytes);
      std::byte* next = joined_.data();
      for (const auto& piece : pieces_) next = std::copy(piece.begin(), piece.end(), next);
      data = joined_.data();
    }
    view_ = ConstTensorView(data, dtype, {end - begin, columns});
  }

  ConstTensorView view() const { return view_; }

 private:
  std::vector<std::span<const std::byte>> pieces_;
  std::vector<SourceBytes> lent_;
  std::vector<AlignedBuffer> gathered_;
  AlignedBuffer joined_;
  ConstTensorView view_;
};

// Rows of a part `rows` long that panels [begin, end) of `width` rows each cover.
std::pair<int64_t, int64_t> CoveredRows(int64_t rows, int64_t width, int64_t begin, int64_t end) {
  return {std::min(rows, begin * width), std::min(rows, end * width)};
}

// Of one panel. source_row(row of the slice) = its weights, as the source has them.
RoundingSums SumsOfPanel(const PanelLayout& slice, int64_t panel, const std::byte* packed,
                         FunctionRef<const std::byte*(int64_t row)> source_row, DType dtype) {
  const auto width = static_cast<size_t>(PanelLayout::kWidth);
  const auto inputs = static_cast<size_t>(slice.in);
  std::vector<float> held(static_cast<size_t>(slice.num_groups() * slice.group) * width);
  DecodeSlab(slice.type(), packed + static_cast<size_t>(panel) * slice.panel_bytes(), inputs,
             held.data());
  std::vector<float> weights(inputs);
  RoundingSums sums;
  for (size_t lane = 0; lane < width; ++lane) {
    const int64_t row = slice.SourceRow(panel, static_cast<int64_t>(lane));
    if (row < 0) continue;
    ConvertToFloat(dtype, source_row(row), inputs, weights.data());
    for (size_t k = 0; k < inputs; ++k) {
      const double weight = weights[k];
      const double error = held[k * width + lane] - weight;
      sums.squares += weight * weight;
      sums.error_squares += error * error;
    }
  }
  return sums;
}

// Of every panel of a slice, to `sums`.
void SumPanels(const PanelLayout& slice, const std::byte* packed,
               FunctionRef<const std::byte*(int64_t row)> source_row, DType dtype,
               RoundingSums* sums) {
  if (!IsInteger(slice.format)) return;
  for (int64_t panel = 0; panel < slice.num_panels(); ++panel) {
    sums[panel] = SumsOfPanel(slice, panel, packed, source_row, dtype);
  }
}

// Panels [begin, end) to `out`, and what each of them lost to `sums`.
void PackPanels(const ModelSource& checkpoint, const PanelLayout& layout,
                const SourceMatrix& source, int64_t begin, int64_t end, std::byte* out,
                RoundingSums* sums) {
  PanelLayout slice = layout;
  if (layout.order == PanelOrder::kPlain) {
    const auto [first, last] = CoveredRows(layout.out, PanelLayout::kWidth, begin, end);
    const RowSlice rows(checkpoint, source.parts, first, last);
    slice.out = last - first;
    PackMatrix(slice, rows.view(), out);
    const ConstTensorView view = rows.view();
    SumPanels(
        slice, out, [&](int64_t row) { return view.row(row); }, view.dtype(), sums);
    return;
  }
  const auto [first, last] = CoveredRows(layout.out / 2, PanelLayout::kPairWidth, begin, end);
  const std::span<const SourceRows> parts = source.parts;
  const RowSlice gate(checkpoint, parts.subspan(0, 1), first, last);
  const RowSlice up(checkpoint, parts.subspan(1, 1), first, last);
  slice.out = 2 * (last - first);
  PackGateUp(slice, gate.view(), up.view(), out);
  const int64_t ffn = last - first;
  const auto source_row = [&](int64_t row) {
    return row < ffn ? gate.view().row(row) : up.view().row(row - ffn);
  };
  SumPanels(slice, out, source_row, gate.view().dtype(), sums);
}

}  // namespace

RoundingSums PackSource(const Context& context, const ModelSource& checkpoint,
                        const PanelLayout& layout, const SourceMatrix& source,
                        const ByteSink& sink) {
  const int64_t num_panels = layout.num_panels();
  const auto panels_per_slice =
      std::clamp<int64_t>(static_cast<int64_t>(kSliceBytes / layout.panel_bytes()), 1, num_panels);
  AlignedBuffer buffer(static_cast<size_t>(panels_per_slice) * layout.panel_bytes(),
                       {.is_zeroed = false});
  std::vector<RoundingSums> of_panels(static_cast<size_t>(num_panels));
  for (int64_t first = 0; first < num_panels; first += panels_per_slice) {
    const int64_t count = std::min(panels_per_slice, num_panels - first);
    context.pool().Run([&](int worker, int num_workers) {
      const int64_t begin = count * worker / num_workers;
      const int64_t end = count * (worker + 1) / num_workers;
      if (begin == end) return;
      PackPanels(checkpoint, layout, source, first + begin, first + end,
                 buffer.data() + static_cast<size_t>(begin) * layout.panel_bytes(),
                 of_panels.data() + first + begin);
    });
    sink({buffer.data(), static_cast<size_t>(count) * layout.panel_bytes()});
  }
  RoundingSums sums;
  for (const RoundingSums& panel : of_panels) sums.Add(panel);
  return sums;
}

void CopySource(const ModelSource& checkpoint, const SourceMatrix& source, const ByteSink& sink) {
  for (const SourceRows& part : source.parts) {
    if (part.strides) {
      const RowSlice rows(checkpoint, std::span(&part, 1), 0, part.num_rows);
      sink({static_cast<const std::byte*>(rows.view().data()), rows.view().num_bytes()});
      continue;
    }
    for (uint64_t at = 0; at < part.tensor->tensor->num_bytes; at += kCopyBytes) {
      const uint64_t count = std::min(kCopyBytes, part.tensor->tensor->num_bytes - at);
      sink(checkpoint.Read(*part.tensor, at, count).bytes());
    }
  }
}

}  // namespace opst
