// Which source tensors fill a packed tensor, checked for presence, shape and dtype before anything
// is written. Reads no tensor data.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_SOURCE_MAP_H_
#define OPST_CONVERT_SOURCE_MAP_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "convert/model_source.h"
#include "model/family.h"
#include "model/packed_tensors.h"
#include "opst/convert.h"

namespace opst {

// Metadata of a packed vector that its source wrote as one row: "[1,n]".
inline constexpr std::string_view kSourceShapePrefix = "source_shape.";

// Where element (r, c) of a part stands in its tensor: first + r·row + c·column.
struct SourceStrides {
  int64_t first = 0;
  int64_t row = 0;
  int64_t column = 0;
};

// Rows [first_row, first_row + num_rows) of a source tensor seen as [rows, columns]; or, with
// strides, a matrix that stands in it transposed or interleaved with others.
struct SourceRows {
  const SourceTensor* tensor = nullptr;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t columns = 0;
  std::optional<SourceStrides> strides = {};
};

// One packed matrix: plain = `parts` one below the other; gate_up = parts[0] gate, parts[1] up.
struct SourceMatrix {
  std::vector<SourceRows> parts;
};

struct MappedTensor {
  PackedTensor packed;
  WeightType type;                     // of the packed tensor
  std::vector<SourceMatrix> matrices;  // num_matrices of them
  std::string source_names() const;    // for the metadata: first … last, comma separated
};

class SourceMap {
 public:
  // Throws kIo naming missing tensors, wrong shapes, mixed dtypes, and source tensors left over.
  SourceMap(const ModelSource& checkpoint, const Family& family, const ModelConfig& config,
            const ConvertOptions& options = {});

  const std::vector<MappedTensor>& tensors() const { return tensors_; }
  const std::vector<std::string>& unused() const { return unused_; }

 private:
  MappedTensor Map(const PackedTensor& packed);
  bool KeepsMxfp4(const MappedTensor& mapped) const;
  // In source_roles.cc: what fills a tensor of each role.
  std::vector<SourceMatrix> SourcesOf(const PackedTensor& packed);
  SourceMatrix GatedPair(const PackedTensor& packed, std::string_view gate, std::string_view up);
  SourceMatrix QkvParts(int64_t layer, bool is_bias);
  std::vector<SourceMatrix> Experts(const PackedTensor& packed);
  std::vector<SourceMatrix> FusedExperts(const PackedTensor& packed, std::string_view name);
  SourceMatrix FusedBias(const PackedTensor& packed);
  std::vector<SourceMatrix> LatentHeads(const PackedTensor& packed);

  SourceRows Take(std::string_view pattern, int64_t layer, int64_t rows, int64_t columns);
  SourceRows TakeVector(std::string_view pattern, int64_t layer, int64_t length);
  const SourceTensor* FindAny(std::string_view pattern, int64_t layer, int64_t expert);
  const SourceTensor& TakeTensor(std::string_view pattern, int64_t layer, int64_t expert,
                                 const std::vector<int64_t>& shape);
  void CheckTiedHead();
  void CheckAllUsed();

  const ModelSource& checkpoint_;
  const Family& family_;
  const ModelConfig& config_;
  std::optional<WeightType> quantized_;
  bool expands_mxfp4_;
  std::vector<MappedTensor> tensors_;
  std::set<std::string_view> used_;
  std::vector<std::string> unused_;
};

}  // namespace opst

#endif  // OPST_CONVERT_SOURCE_MAP_H_
