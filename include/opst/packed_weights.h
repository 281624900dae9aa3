// PackedWeights: expert matrices laid out in 16-column panels, and the layout's arithmetic. Packing
// itself is in opst/pack.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_PACKED_WEIGHTS_H_
#define OPST_PACKED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opst/dtype.h"

namespace opst {

// How one weight is stored. Panels of every format are common to all instruction sets.
enum class WeightFormat : uint8_t {
  kF32,
  kBf16,
  kF16,
  kInt8,  // scale · q, q = -128 … 127, one f16 scale for a group of inputs of one output column
  kInt4,  // scale · (q - 8), q = 0 … 15, the same scales
  // scale · 2·f, f one of ±0, 0.5, 1, 1.5, 2, 3, 4, 6 (the 4-bit floats of OCP's microscaling
  // formats), the scale a power of two for a group of 32
  kMxfp4,
};

std::string_view Name(WeightFormat format);  // "f32", "bf16", "f16", "int8", "int4", "mxfp4"
// Whether weights are small integers times a scale for their group; those of mxfp4 are 0 … ±12.
inline bool IsInteger(WeightFormat format) { return format >= WeightFormat::kInt8; }
// Of a model float dtype; kInvalidArgument for any other.
WeightFormat FormatOf(DType dtype);
// f32, bf16 or f16; of integer formats the dtype of their bytes: u8.
DType DTypeOfFormat(WeightFormat format);

// Inputs that share a scale in integer formats.
inline constexpr int64_t kDefaultGroup = 32;
inline constexpr int64_t kGroups[] = {32, 64, 128};

// A format and, for integers, the length of its groups.
struct WeightType {
  WeightFormat format = WeightFormat::kF32;
  int64_t group = kDefaultGroup;

  constexpr WeightType() = default;
  // Implicit: most callers name a format alone. Groups of mxfp4 are of 32 inputs.
  constexpr WeightType(WeightFormat weight_format, int64_t group_length = kDefaultGroup)  // NOLINT
      : format(weight_format), group(group_length) {}
  bool operator==(const WeightType&) const = default;
  std::string ToString() const;  // "bf16", "int4 in groups of 32"
};

// Which output columns share a panel.
enum class PanelOrder : uint8_t {
  kPlain,   // panel p holds columns 16p … 16p+15
  kGateUp,  // panel p holds gate columns 8p … 8p+7, then up columns 8p … 8p+7
};

// The layout of one matrix y[N] = W[N, K] x[K]: panels one after the other, 16 output columns each.
// Inside a panel the input index k is the slow one:
//   f32   64-byte rows: k, 16 columns
//   bf16  64-byte rows: 16 lanes of 32 bits, lane = column, low half = even k, high half = odd k
//   f16   32-byte rows: k, 16 columns
//   int8  64-byte rows: 16 lanes of 32 bits, lane = column, its bytes are inputs k, k+2, k+1, k+3
//   int4  64-byte rows: 16 lanes, lane = column, its nibbles from the lowest are inputs
//         k, k+2, k+4, k+6, k+1, k+3, k+5, k+7
//   mxfp4 as int4; a nibble is a 4-bit float: sign, two bits of exponent, one of mantissa
// After the rows of every group integer panels have the group's 16 scales (f16). Inside a lane the
// order is such that 16-bit halves, masked and shifted, are pairs of neighbouring inputs.
// Columns beyond N and inputs beyond K, up to a pair or a group, are zeros. In kGateUp, N = 2F:
// rows 0 … F-1 of W are the gate, F … 2F-1 the up projection.
struct PanelLayout {
  static constexpr int64_t kWidth = 16;
  static constexpr int64_t kPairWidth = kWidth / 2;

  WeightFormat format = WeightFormat::kF32;
  PanelOrder order = PanelOrder::kPlain;
  int64_t out = 0;                // N
  int64_t in = 0;                 // K
  int64_t group = kDefaultGroup;  // of integer formats

  WeightType type() const { return {format, group}; }
  int64_t num_panels() const;
  // Scale groups of a panel, and bytes of one with its scales; of integer formats.
  int64_t num_groups() const;
  size_t group_bytes() const;
  // Bytes of `k` inputs of a panel (k even for bf16, whole groups of integers unless they are the
  // last), of a panel, of the whole matrix.
  size_t slab_bytes(int64_t k) const;
  size_t panel_bytes() const;
  size_t matrix_bytes() const;
  // Row of W held in lane `lane` of panel `panel`; -1 for padding.
  int64_t SourceRow(int64_t panel, int64_t lane) const;
  // Byte offset inside the matrix of W's element in lane `lane` of panel `panel` at input k; for
  // int4 and mxfp4 of the byte that holds it.
  size_t ElementOffset(int64_t panel, int64_t lane, int64_t k) const;
  // Of the element's scale; of integer formats.
  size_t ScaleOffset(int64_t panel, int64_t lane, int64_t k) const;
  bool operator==(const PanelLayout&) const = default;
  std::string ToString() const;
};

// E matrices of one layout, borrowed or owned, one base pointer an expert, so that experts may live
// in one mapped file, in separate buffers, or be moved one by one.
// Copying copies pointers and shares ownership.
class PackedWeights {
 public:
  PackedWeights() = default;
  // Borrows `num_experts` matrices standing one after the other; `owner` is kept alive.
  PackedWeights(PanelLayout layout, int64_t num_experts, const std::byte* data,
                std::shared_ptr<const void> owner = nullptr);
  // Borrows one pointer per expert.
  PackedWeights(PanelLayout layout, std::vector<const std::byte*> experts,
                std::shared_ptr<const void> owner = nullptr);

  const PanelLayout& layout() const { return layout_; }
  int64_t num_experts() const { return static_cast<int64_t>(experts_.size()); }
  const std::byte* expert(int64_t index) const { return experts_[static_cast<size_t>(index)]; }
  // Whether the matrix is there: an ExpertStore leaves null what it was not asked for. A matrix
  // without elements is there.
  bool has(int64_t index) const { return expert(index) != nullptr || layout_.matrix_bytes() == 0; }
  // W[expert, row, k] as f32, slowly: for references, tests and embedding rows.
  float At(int64_t expert, int64_t row, int64_t k) const;
  // "8 x [28672,4096] bf16 gate_up panels"
  std::string ToString() const;

 private:
  PanelLayout layout_;
  std::vector<const std::byte*> experts_;
  std::shared_ptr<const void> owner_;
};

}  // namespace opst

#endif  // OPST_PACKED_WEIGHTS_H_
