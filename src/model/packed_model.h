// PackedModel: an opened packed file as weights ready for use. Nothing is copied but vectors.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_PACKED_MODEL_H_
#define OPST_MODEL_PACKED_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/safetensors.h"
#include "model/packed_tensors.h"
#include "opst/model_config.h"
#include "opst/packed_weights.h"

namespace opst {

class PackedModel {
 public:
  // Throws kIo for a file that is no packed model, of a newer format, incomplete, or whose tensors
  // do not have the shapes of its own recipe; and when its recipe is not what this version reads
  // from its config, since the answer would silently be another one.
  static std::shared_ptr<const PackedModel> Open(const std::string& path, LoadOptions options);

  const ModelConfig& config() const { return config_; }
  const SafetensorsFile& file() const { return file_; }
  const LoadOptions& load_options() const { return load_options_; }

  // A tensor of PackedTensors(config()). The views live as long as this object, which they keep.
  PackedWeights Panels(Role role, int64_t layer = -1) const;
  std::vector<float> Vector(Role role, int64_t layer = -1) const;
  ConstTensorView Rows(Role role) const;
  // How a tensor of the recipe is stored. Throws kIo for what no tensor is stored as.
  WeightType TypeOf(const PackedTensor& tensor) const;
  // Content of a text file of the source; none when the source had none.
  std::optional<std::string_view> TextFile(std::string_view name) const;

  // Compares every checksum of the metadata. Reads the whole file. Throws kIo naming the first
  // tensor that differs.
  void CheckChecksums() const;

 private:
  explicit PackedModel(SafetensorsFile file) : file_(std::move(file)) {}
  void ReadMetadata();
  void CheckTensors() const;
  const PackedTensor& Describe(Role role, int64_t layer) const;
  const SafetensorsTensor& Stored(const PackedTensor& tensor) const;
  void CheckHeader() const;
  void CheckPadding(const SafetensorsTensor& stored) const;
  const std::string& Metadata(std::string_view key) const;

  SafetensorsFile file_;
  LoadOptions load_options_;
  ModelConfig config_;
  std::vector<PackedTensor> tensors_;
  std::map<std::pair<Role, int64_t>, size_t> index_;  // by role and layer, into tensors_
  std::weak_ptr<const PackedModel> self_;
};

}  // namespace opst

#endif  // OPST_MODEL_PACKED_MODEL_H_
