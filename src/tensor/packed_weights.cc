// The arithmetic of the panel layout; nothing is packed or multiplied here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/packed_weights.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace opst {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Lane and panel of row `row` of W: the inverse of PanelLayout::SourceRow.
std::pair<int64_t, int64_t> PanelAndLane(const PanelLayout& layout, int64_t row) {
  if (layout.order == PanelOrder::kPlain) {
    return {row / PanelLayout::kWidth, row % PanelLayout::kWidth};
  }
  const int64_t ffn = layout.out / 2;
  const int64_t half = row < ffn ? 0 : 1;
  const int64_t column = row - half * ffn;
  return {column / PanelLayout::kPairWidth,
          half * PanelLayout::kPairWidth + column % PanelLayout::kPairWidth};
}

}  // namespace

std::string_view Name(WeightFormat format) { return Name(DTypeOfFormat(format)); }

WeightFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return WeightFormat::kF32;
    case DType::kBf16:
      return WeightFormat::kBf16;
    case DType::kF16:
      return WeightFormat::kF16;
    default:
      ThrowInvalid("weights", "the dtype of weights must be f32, bf16 or f16", Name(dtype));
  }
}

DType DTypeOfFormat(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return DType::kF32;
    case WeightFormat::kBf16:
      return DType::kBf16;
    case WeightFormat::kF16:
      return DType::kF16;
  }
  return DType::kF32;
}

int64_t PanelLayout::num_panels() const {
  return order == PanelOrder::kPlain ? CeilDiv(out, kWidth) : CeilDiv(out / 2, kPairWidth);
}

size_t PanelLayout::slab_bytes(int64_t k) const {
  const int64_t stored = format == WeightFormat::kBf16 ? k + (k & 1) : k;
  return static_cast<size_t>(stored * kWidth) * ByteSize(DTypeOfFormat(format));
}

size_t PanelLayout::panel_bytes() const { return slab_bytes(in); }

size_t PanelLayout::matrix_bytes() const {
  return static_cast<size_t>(num_panels()) * panel_bytes();
}

int64_t PanelLayout::SourceRow(int64_t panel, int64_t lane) const {
  if (order == PanelOrder::kPlain) {
    const int64_t row = panel * kWidth + lane;
    return row < out ? row : -1;
  }
  const int64_t ffn = out / 2;
  const int64_t column = panel * kPairWidth + lane % kPairWidth;
  if (column >= ffn) return -1;
  return lane < kPairWidth ? column : ffn + column;
}

size_t PanelLayout::ElementOffset(int64_t panel, int64_t lane, int64_t k) const {
  const size_t element = ByteSize(DTypeOfFormat(format));
  const size_t base = static_cast<size_t>(panel) * panel_bytes();
  if (format == WeightFormat::kBf16) {
    const int64_t pair_row = k / 2;
    return base + static_cast<size_t>((pair_row * kWidth + lane) * 2 + k % 2) * element;
  }
  return base + static_cast<size_t>(k * kWidth + lane) * element;
}

std::string PanelLayout::ToString() const {
  return Concat("[", out, ",", in, "] ", Name(format),
                order == PanelOrder::kGateUp ? " gate_up panels" : " panels");
}

PackedWeights::PackedWeights(PanelLayout layout, int64_t num_experts, const std::byte* data,
                             std::shared_ptr<const void> owner)
    : layout_(layout), owner_(std::move(owner)) {
  experts_.reserve(static_cast<size_t>(num_experts));
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    experts_.push_back(data + static_cast<size_t>(expert) * layout.matrix_bytes());
  }
}

PackedWeights::PackedWeights(PanelLayout layout, std::vector<const std::byte*> experts,
                             std::shared_ptr<const void> owner)
    : layout_(layout), experts_(std::move(experts)), owner_(std::move(owner)) {}

float PackedWeights::At(int64_t expert_index, int64_t row, int64_t k) const {
  const auto [panel, lane] = PanelAndLane(layout_, row);
  const std::byte* element = expert(expert_index) + layout_.ElementOffset(panel, lane, k);
  if (layout_.format == WeightFormat::kF32) {
    float value = 0;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, element, sizeof(bits));
  return layout_.format == WeightFormat::kBf16 ? ToFloat(Bf16{bits}) : ToFloat(F16{bits});
}

std::string PackedWeights::ToString() const {
  return Concat(num_experts(), " x ", layout_.ToString());
}

}  // namespace opst
