// Quantises group by group and puts every code into its byte or nibble.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "pack/integer_panel.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "pack/quantize_group.h"

namespace opst {
namespace {

void StoreInt8(const GroupCodes& group, size_t length, size_t lane, std::byte* out) {
  for (size_t k = 0; k < length; ++k) {
    const size_t row = k / kInt8PerLane;
    const size_t place = (row * PanelLayout::kWidth + lane) * sizeof(uint32_t);
    out[place + kByteOfInput[k % kInt8PerLane]] = static_cast<std::byte>(group.codes[k]);
  }
}

uint32_t Mxfp4Bits(int8_t value) {
  const auto place = std::find(kMxfp4Values.begin(), kMxfp4Values.end(), value);
  return static_cast<uint32_t>(place - kMxfp4Values.begin());
}

void StoreNibbles(const GroupCodes& group, bool is_mxfp4, size_t length, size_t lane,
                  std::byte* out) {
  for (size_t k = 0; k < length; k += kInt4PerLane) {
    uint32_t packed = 0;
    for (size_t i = 0; i < kInt4PerLane; ++i) {
      const int8_t value = group.codes[k + i];
      const uint32_t code = is_mxfp4 ? Mxfp4Bits(value) : static_cast<uint32_t>(value + kInt4Zero);
      packed |= code << (4 * kNibbleOfInput[i]);
    }
    const size_t row = k / kInt4PerLane;
    std::memcpy(out + (row * PanelLayout::kWidth + lane) * sizeof(packed), &packed, sizeof(packed));
  }
}

}  // namespace

void CheckGroup(WeightType type) {
  if (!IsInteger(type.format)) return;
  const bool is_known =
      std::find(std::begin(kGroups), std::end(kGroups), type.group) != std::end(kGroups);
  OPST_CHECK_ARG(is_known, "pack", "groups of integer weights must be 32, 64 or 128", type.group);
  OPST_CHECK_ARG(type.format != WeightFormat::kMxfp4 || type.group == kDefaultGroup, "pack",
                 "groups of mxfp4 weights must be 32", type.group);
}

void PackIntegerPanel(const PanelLayout& layout,
                      FunctionRef<void(int64_t first, int64_t count, GroupRows& rows)> read,
                      std::byte* out) {
  const auto length = static_cast<size_t>(layout.group);
  for (int64_t group = 0; group < layout.num_groups(); ++group) {
    GroupRows rows{};
    const int64_t first = group * layout.group;
    read(first, std::min(layout.group, layout.in - first), rows);
    std::byte* place = out + static_cast<size_t>(group) * layout.group_bytes();
    std::byte* scales = place + layout.group_bytes() - PanelLayout::kWidth * sizeof(F16);
    for (size_t lane = 0; lane < rows.size(); ++lane) {
      const GroupCodes codes = QuantizeGroup(layout.format, {rows[lane].data(), length});
      if (layout.format == WeightFormat::kInt8) {
        StoreInt8(codes, length, lane, place);
      } else {
        StoreNibbles(codes, layout.format == WeightFormat::kMxfp4, length, lane, place);
      }
      std::memcpy(scales + lane * sizeof(F16), &codes.scale, sizeof(F16));
    }
  }
}

}  // namespace opst
