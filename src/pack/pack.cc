// Interleaves sixteen weight rows at a time into a panel, converting on the way.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/pack.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/config.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/rows.h"
#include "pack/integer_panel.h"

namespace opst {
namespace {

constexpr int64_t kWidth = PanelLayout::kWidth;
// Inputs converted at a time: sixteen rows of them are at most 16 KB.
constexpr int64_t kChunk = 256;

// Sixteen source rows of a panel; null = padding.
using PanelRows = std::array<const std::byte*, kWidth>;

// dst = src converted to the format's element; bits are kept when the types agree.
void ConvertRow(DType from, const std::byte* src, int64_t n, DType to, std::byte* dst) {
  if (from == to) {
    std::memcpy(dst, src, static_cast<size_t>(n) * ByteSize(from));
    return;
  }
  std::array<float, kChunk> values;
  ConvertToFloat(from, src, static_cast<size_t>(n), values.data());
  ConvertFromFloat(values.data(), static_cast<size_t>(n), to, dst);
}

// Interleaves `rows` into one panel. Element is the stored integer type; kPair inputs share a lane.
template <typename Element, int64_t kPair>
void PackPanel(const PanelRows& rows, DType from, DType to, int64_t in, std::byte* out) {
  std::array<std::array<Element, kChunk>, kWidth> chunk;
  auto* panel = reinterpret_cast<Element*>(out);
  for (int64_t begin = 0; begin < in; begin += kChunk) {
    const int64_t count = std::min(kChunk, in - begin);
    const int64_t stored = (count + kPair - 1) / kPair * kPair;
    for (size_t lane = 0; lane < rows.size(); ++lane) {
      auto* row = reinterpret_cast<std::byte*>(chunk[lane].data());
      chunk[lane].fill(0);
      if (rows[lane] == nullptr) continue;
      ConvertRow(from, rows[lane] + static_cast<size_t>(begin) * ByteSize(from), count, to, row);
    }
    for (int64_t k = 0; k < stored; k += kPair) {
      Element* lanes = panel + (begin + k) * kWidth;
      for (size_t lane = 0; lane < rows.size(); ++lane) {
        for (int64_t pair = 0; pair < kPair; ++pair) {
          lanes[static_cast<int64_t>(lane) * kPair + pair] =
              chunk[lane][static_cast<size_t>(k + pair)];
        }
      }
    }
  }
}

void ReadGroup(const PanelRows& rows, DType from, int64_t first, int64_t count, GroupRows& values) {
  for (size_t lane = 0; lane < rows.size(); ++lane) {
    if (rows[lane] == nullptr) continue;
    ConvertToFloat(from, rows[lane] + static_cast<size_t>(first) * ByteSize(from),
                   static_cast<size_t>(count), values[lane].data());
  }
}

// row_of(source row of W) = its bytes.
template <typename RowOf>
void PackRows(const PanelLayout& layout, DType from, RowOf row_of, std::byte* out) {
  const DType to = DTypeOfFormat(layout.format);
  for (int64_t panel = 0; panel < layout.num_panels(); ++panel) {
    PanelRows rows{};
    for (int64_t lane = 0; lane < kWidth; ++lane) {
      const int64_t source = layout.SourceRow(panel, lane);
      rows[static_cast<size_t>(lane)] = source < 0 ? nullptr : row_of(source);
    }
    std::byte* dst = out + static_cast<size_t>(panel) * layout.panel_bytes();
    if (IsInteger(layout.format)) {
      const auto read = [&](int64_t first, int64_t count, GroupRows& values) {
        ReadGroup(rows, from, first, count, values);
      };
      PackIntegerPanel(layout, read, dst);
    } else if (layout.format == WeightFormat::kF32) {
      PackPanel<uint32_t, 1>(rows, from, to, layout.in, dst);
    } else if (layout.format == WeightFormat::kBf16) {
      PackPanel<uint16_t, 2>(rows, from, to, layout.in, dst);
    } else {
      PackPanel<uint16_t, 1>(rows, from, to, layout.in, dst);
    }
  }
}

void CheckDestination(const PanelLayout& layout, ConstTensorView weights, const std::byte* out) {
  OPST_CHECK_ARG(reinterpret_cast<uintptr_t>(out) % alignof(uint32_t) == 0, "pack",
                 "panels must be aligned to 4 bytes", static_cast<const void*>(out));
  const ConstTensorView panels(out, DType::kU8, Shape{static_cast<int64_t>(layout.matrix_bytes())});
  OPST_CHECK_ARG(!panels.Overlaps(weights), "pack", "panels must not overlap the weights",
                 weights.ToString());
  CheckGroup(layout.type());
}

void CheckSource(ConstTensorView weights, int64_t out, int64_t in) {
  OPST_CHECK_ARG(IsModelFloat(weights.dtype()), "pack", "weights must be f32, bf16 or f16",
                 weights.ToString());
  OPST_CHECK_ARG(weights.rank() == 2 && weights.dim(0) == out && weights.dim(1) == in, "pack",
                 Concat("weights must be [", out, ",", in, "]"), weights.ToString());
}

}  // namespace

void PackMatrix(const PanelLayout& layout, ConstTensorView weights, std::byte* out) {
  OPST_CHECK_ARG(layout.order == PanelOrder::kPlain, "pack", "the layout must be plain",
                 layout.ToString());
  CheckSource(weights, layout.out, layout.in);
  CheckDestination(layout, weights, out);
  PackRows(
      layout, weights.dtype(), [&](int64_t row) { return weights.row(row); }, out);
}

void PackGateUp(const PanelLayout& layout, ConstTensorView gate, ConstTensorView up,
                std::byte* out) {
  OPST_CHECK_ARG(layout.order == PanelOrder::kGateUp && layout.out % 2 == 0, "pack",
                 "the layout must be gate_up with an even number of rows", layout.ToString());
  OPST_CHECK_ARG(gate.dtype() == up.dtype(), "pack", "gate and up must have one dtype",
                 gate.ToString(), " and ", up.ToString());
  const int64_t ffn = layout.out / 2;
  CheckSource(gate, ffn, layout.in);
  CheckSource(up, ffn, layout.in);
  CheckDestination(layout, gate, out);
  CheckDestination(layout, up, out);
  const auto row_of = [&](int64_t row) { return row < ffn ? gate.row(row) : up.row(row - ffn); };
  PackRows(layout, gate.dtype(), row_of, out);
}

PackedWeights PackExperts(const Context& context, ConstTensorView weights, WeightType type,
                          PanelOrder order) {
  OPST_CHECK_ARG(weights.rank() == 3, "pack", "expert weights must be [E, out, in]",
                 weights.ToString());
  OPST_CHECK_ARG(IsModelFloat(weights.dtype()), "pack", "weights must be f32, bf16 or f16",
                 weights.ToString());
  OPST_CHECK_ARG(order == PanelOrder::kPlain || weights.dim(1) % 2 == 0, "pack",
                 "gate_up weights must have an even number of rows (2F)", weights.ToString());
  CheckGroup(type);
  const PanelLayout layout{type.format, order, weights.dim(1), weights.dim(2), type.group};
  const int64_t num_experts = weights.dim(0);
  const size_t bytes = static_cast<size_t>(num_experts) * layout.matrix_bytes();
  auto buffer = std::make_shared<AlignedBuffer>(
      bytes, BufferOptions{.use_huge_pages = context.config().GetBool("huge_pages")});
  context.pool().ParallelFor(static_cast<size_t>(num_experts), [&](size_t expert, int) {
    const int64_t first_row = static_cast<int64_t>(expert) * layout.out;
    const auto part = [&](int64_t begin, int64_t count) {
      return ConstTensorView(weights.row(first_row + begin), weights.dtype(), {count, layout.in});
    };
    std::byte* out = buffer->data() + expert * layout.matrix_bytes();
    if (order == PanelOrder::kPlain) {
      PackMatrix(layout, part(0, layout.out), out);
    } else {
      PackGateUp(layout, part(0, layout.out / 2), part(layout.out / 2, layout.out / 2), out);
    }
  });
  const std::byte* data = buffer->data();
  return PackedWeights(layout, num_experts, data, std::move(buffer));
}

}  // namespace opst
