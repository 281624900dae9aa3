// A tiny checkpoint copied into a temporary folder, with changes: for tests of broken sources.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_TESTING_CHECKPOINT_COPY_H_
#define OPST_CONVERT_TESTING_CHECKPOINT_COPY_H_

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace opst::testing {

struct TensorCopy {
  SafetensorsDeclaration declaration;
  std::vector<std::byte> bytes;
};

// Folder with config.json and model.safetensors of tests/data/tiny/<name>; removed at the end.
class CheckpointCopy {
 public:
  explicit CheckpointCopy(const std::string& name) {
    const auto source = std::filesystem::path(OPST_SOURCE_DIR) / "tests/data/tiny" / name;
    config_ = nlohmann::json::parse(ReadWholeFile((source / "config.json").string(), 1 << 20));
    const auto file = SafetensorsFile::Open((source / "model.safetensors").string());
    for (const SafetensorsTensor& tensor : file.tensors()) {
      const auto bytes = file.Bytes(tensor);
      tensors_.push_back({{tensor.name, tensor.dtype, tensor.shape}, {bytes.begin(), bytes.end()}});
    }
  }

  nlohmann::json& config() { return config_; }
  const nlohmann::json& config() const { return config_; }
  std::vector<TensorCopy>& tensors() { return tensors_; }
  TensorCopy& tensor(const std::string& name) {
    for (TensorCopy& tensor : tensors_) {
      if (tensor.declaration.name == name) return tensor;
    }
    throw std::out_of_range(name);
  }
  void Remove(const std::string& name) {
    std::erase_if(tensors_, [&](const TensorCopy& t) { return t.declaration.name == name; });
  }

  // Writes the folder as it is now, as one file or as shards without an index, and returns its
  // path.
  std::string Write(size_t num_shards = 1) const {
    std::ofstream(folder_.File("config.json")) << config_.dump();
    for (size_t shard = 0; shard < num_shards; ++shard) {
      char name[64] = "model.safetensors";
      if (num_shards > 1) {
        std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, num_shards);
      }
      std::vector<const TensorCopy*> own;
      for (size_t i = shard; i < tensors_.size(); i += num_shards) own.push_back(&tensors_[i]);
      WriteFile(folder_.File(name), own);
    }
    return folder_.path();
  }
  std::string output() const { return folder_.File("model.opst"); }

 private:
  static void WriteFile(const std::string& path, const std::vector<const TensorCopy*>& tensors) {
    std::vector<SafetensorsDeclaration> declarations;
    for (const TensorCopy* tensor : tensors) declarations.push_back(tensor->declaration);
    // alignment 1: no padding tensors, as other programs write
    SafetensorsWriter writer(path, declarations, {},
                             {.if_exists = IfExists::kReplace, .alignment = 1});
    for (const TensorCopy* tensor : tensors) {
      writer.Append(tensor->declaration.name, tensor->bytes);
    }
    writer.Finish();
  }

  TempFolder folder_;
  nlohmann::json config_;
  std::vector<TensorCopy> tensors_;
};

}  // namespace opst::testing

#endif  // OPST_CONVERT_TESTING_CHECKPOINT_COPY_H_
