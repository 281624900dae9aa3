// Packs matrices whose rows are inputs: a panel takes sixteen neighbouring elements of every row.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/config.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/rows.h"
#include "opst/pack.h"
#include "pack/integer_panel.h"

namespace opst {
namespace {

constexpr int64_t kWidth = PanelLayout::kWidth;

// One panel; `rows` are the inputs. kPair inputs share a lane, so two rows are read at a time.
template <typename Element, int64_t kPair>
void PackPanel(ConstTensorView rows, int64_t first_column, int64_t num_columns, DType to,
               std::byte* out) {
  auto* panel = reinterpret_cast<Element*>(out);
  const int64_t in = rows.dim(0);
  const size_t offset = static_cast<size_t>(first_column) * ByteSize(rows.dtype());
  for (int64_t k = 0; k < in; k += kPair) {
    std::array<std::array<Element, kWidth>, kPair> lanes{};
    for (int64_t pair = 0; pair < std::min(kPair, in - k); ++pair) {
      std::byte* lane = reinterpret_cast<std::byte*>(lanes[static_cast<size_t>(pair)].data());
      const std::byte* source = rows.row(k + pair) + offset;
      if (rows.dtype() == to) {
        std::memcpy(lane, source, static_cast<size_t>(num_columns) * sizeof(Element));
        continue;
      }
      std::array<float, kWidth> values;
      ConvertToFloat(rows.dtype(), source, static_cast<size_t>(num_columns), values.data());
      ConvertFromFloat(values.data(), static_cast<size_t>(num_columns), to, lane);
    }
    for (size_t lane = 0; lane < kWidth; ++lane) {
      for (size_t pair = 0; pair < kPair; ++pair) *panel++ = lanes[pair][lane];
    }
  }
}

void ReadGroup(ConstTensorView rows, int64_t first_column, int64_t num_columns, int64_t first_input,
               int64_t num_inputs, GroupRows& values) {
  const size_t offset = static_cast<size_t>(first_column) * ByteSize(rows.dtype());
  for (int64_t k = 0; k < num_inputs; ++k) {
    std::array<float, kWidth> columns;
    ConvertToFloat(rows.dtype(), rows.row(first_input + k) + offset,
                   static_cast<size_t>(num_columns), columns.data());
    for (size_t lane = 0; lane < static_cast<size_t>(num_columns); ++lane) {
      values[lane][static_cast<size_t>(k)] = columns[lane];
    }
  }
}

void PackTransposed(const PanelLayout& layout, ConstTensorView rows, std::byte* out) {
  const DType to = DTypeOfFormat(layout.format);
  for (int64_t panel = 0; panel < layout.num_panels(); ++panel) {
    const int64_t first = panel * kWidth;
    const int64_t count = std::min(kWidth, layout.out - first);
    std::byte* place = out + static_cast<size_t>(panel) * layout.panel_bytes();
    if (IsInteger(layout.format)) {
      const auto read = [&](int64_t first_input, int64_t num_inputs, GroupRows& values) {
        ReadGroup(rows, first, count, first_input, num_inputs, values);
      };
      PackIntegerPanel(layout, read, place);
    } else if (layout.format == WeightFormat::kF32) {
      PackPanel<uint32_t, 1>(rows, first, count, to, place);
    } else if (layout.format == WeightFormat::kBf16) {
      PackPanel<uint16_t, 2>(rows, first, count, to, place);
    } else {
      PackPanel<uint16_t, 1>(rows, first, count, to, place);
    }
  }
}

}  // namespace

PackedWeights PackExpertsTransposed(const Context& context, ConstTensorView weights,
                                    WeightType type) {
  OPST_CHECK_ARG(weights.rank() == 3, "pack", "expert weights must be [E, in, out]",
                 weights.ToString());
  OPST_CHECK_ARG(IsModelFloat(weights.dtype()), "pack", "weights must be f32, bf16 or f16",
                 weights.ToString());
  CheckGroup(type);
  const PanelLayout layout{type.format, PanelOrder::kPlain, weights.dim(2), weights.dim(1),
                           type.group};
  const int64_t num_experts = weights.dim(0);
  const size_t bytes = static_cast<size_t>(num_experts) * layout.matrix_bytes();
  auto buffer = std::make_shared<AlignedBuffer>(
      bytes, BufferOptions{.use_huge_pages = context.config().GetBool("huge_pages")});
  context.pool().ParallelFor(static_cast<size_t>(num_experts), [&](size_t expert, int) {
    const ConstTensorView rows(weights.row(static_cast<int64_t>(expert) * layout.in),
                               weights.dtype(), {layout.in, layout.out});
    PackTransposed(layout, rows, buffer->data() + expert * layout.matrix_bytes());
  });
  const std::byte* data = buffer->data();
  return PackedWeights(layout, num_experts, data, std::move(buffer));
}

}  // namespace opst
