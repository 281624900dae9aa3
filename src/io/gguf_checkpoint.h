// A GGUF model of one or many files as a single list of tensors.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_GGUF_CHECKPOINT_H_
#define OPST_IO_GGUF_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf.h"

namespace opst {

// Thread safety: const members may be called from several threads. Movable.
class GgufCheckpoint {
 public:
  struct Tensor {
    const GgufFile* file = nullptr;
    const GgufTensor* tensor = nullptr;
    std::span<const std::byte> bytes() const { return file->Bytes(*tensor); }
  };

  // `path`: a .gguf file, any part of a split one (NAME-00001-of-0000N.gguf), or a folder that
  // holds one such model. Throws kIo as ParseGguf, and when a part is missing, of another model, or
  // a tensor stands in two parts.
  static GgufCheckpoint Open(const std::string& path);
  // Whether `path` is something that Open takes: by name only.
  static bool IsGguf(const std::string& path);

  const std::string& path() const { return files_.front().path(); }
  // Of the first part, which has everything.
  const GgufMetadata& metadata() const { return files_.front().metadata(); }
  const std::vector<GgufFile>& files() const { return files_; }
  const std::map<std::string_view, Tensor>& tensors() const { return tensors_; }
  const Tensor* Find(std::string_view name) const;
  uint64_t total_bytes() const;

 private:
  void CheckParts() const;
  void IndexTensors();

  std::vector<GgufFile> files_;
  std::map<std::string_view, Tensor> tensors_;
};

}  // namespace opst

#endif  // OPST_IO_GGUF_CHECKPOINT_H_
