// The arithmetic of the panel layout; nothing is packed or multiplied here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/packed_weights.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "tensor/integer_panels.h"

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

float IntegerAt(const PanelLayout& layout, const std::byte* matrix, int64_t panel, int64_t lane,
                int64_t k) {
  F16 scale;
  std::memcpy(&scale, matrix + layout.ScaleOffset(panel, lane, k), sizeof(scale));
  const auto byte = std::to_integer<uint8_t>(matrix[layout.ElementOffset(panel, lane, k)]);
  if (layout.format == WeightFormat::kInt8) {
    return ToFloat(scale) * static_cast<float>(static_cast<int8_t>(byte));
  }
  const bool is_high = kNibbleOfInput[static_cast<size_t>(k) % kInt4PerLane] % 2 != 0;
  const int code = is_high ? byte >> 4 : byte & 0x0F;
  if (layout.format == WeightFormat::kMxfp4) {
    return ToFloat(scale) * static_cast<float>(kMxfp4Values[static_cast<size_t>(code)]);
  }
  return ToFloat(scale) * static_cast<float>(code - kInt4Zero);
}

}  // namespace

std::string_view Name(WeightFormat format) {
  if (format == WeightFormat::kInt8) return "int8";
  if (format == WeightFormat::kInt4) return "int4";
  if (format == WeightFormat::kMxfp4) return "mxfp4";
  return Name(DTypeOfFormat(format));
}

std::string WeightType::ToString() const {
  if (format == WeightFormat::kMxfp4) return "mxfp4";
  return IsInteger(format) ? Concat(Name(format), " in groups of ", group)
                           : std::string(Name(format));
}

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
    case WeightFormat::kInt8:
    case WeightFormat::kInt4:
    case WeightFormat::kMxfp4:
      return DType::kU8;
  }
  return DType::kF32;
}

int64_t PanelLayout::num_panels() const {
  return order == PanelOrder::kPlain ? CeilDiv(out, kWidth) : CeilDiv(out / 2, kPairWidth);
}

int64_t PanelLayout::num_groups() const { return CeilDiv(in, group); }

size_t PanelLayout::group_bytes() const {
  const int64_t lane_bytes = format == WeightFormat::kInt8 ? group : group / 2;
  return static_cast<size_t>((lane_bytes + static_cast<int64_t>(sizeof(F16))) * kWidth);
}

size_t PanelLayout::slab_bytes(int64_t k) const {
  if (IsInteger(format)) return static_cast<size_t>(CeilDiv(k, group)) * group_bytes();
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
  if (IsInteger(format)) {
    const bool is_int8 = format == WeightFormat::kInt8;
    const size_t per_lane = is_int8 ? kInt8PerLane : kInt4PerLane;
    const size_t row = static_cast<size_t>(k % group) / per_lane;
    const size_t at = static_cast<size_t>(k) % per_lane;
    const size_t byte = is_int8 ? kByteOfInput[at] : kNibbleOfInput[at] / 2;
    return static_cast<size_t>(panel) * panel_bytes() +
           static_cast<size_t>(k / group) * group_bytes() +
           (row * kWidth + static_cast<size_t>(lane)) * sizeof(uint32_t) + byte;
  }
  const size_t element = ByteSize(DTypeOfFormat(format));
  const size_t base = static_cast<size_t>(panel) * panel_bytes();
  if (format == WeightFormat::kBf16) {
    const int64_t pair_row = k / 2;
    return base + static_cast<size_t>((pair_row * kWidth + lane) * 2 + k % 2) * element;
  }
  return base + static_cast<size_t>(k * kWidth + lane) * element;
}

size_t PanelLayout::ScaleOffset(int64_t panel, int64_t lane, int64_t k) const {
  return static_cast<size_t>(panel) * panel_bytes() +
         static_cast<size_t>(k / group + 1) * group_bytes() -
         static_cast<size_t>(kWidth - lane) * sizeof(F16);
}

std::string PanelLayout::ToString() const {
  return Concat("[", out, ",", in, "] ", type().ToString(),
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
  if (IsInteger(layout_.format)) return IntegerAt(layout_, expert(expert_index), panel, lane, k);
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
