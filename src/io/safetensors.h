// One safetensors file opened for reading: its tensors, metadata and bytes; shards are joined
// elsewhere.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_SAFETENSORS_H_
#define OPST_IO_SAFETENSORS_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/mapped_file.h"
#include "io/safetensors_header.h"
#include "opst/tensor.h"

namespace opst {

// Tensors called "pad.<n>" only align what follows them; readers of our files skip them.
bool IsPaddingName(std::string_view name);

// Untrusted input: after Open every tensor lies inside the file, tensors neither overlap nor leave
// holes, and sizes of known types are right. Values are not looked at.
// Thread safety: const members may be called from several threads.
class SafetensorsFile {
 public:
  // Throws kIo naming the file, the tensor and the value, or kOutOfMemory.
  static SafetensorsFile Open(const std::string& path, LoadOptions options = {});

  const std::string& path() const { return file_.path(); }
  const MappedFile& file() const { return file_; }
  // In the order of their bytes.
  const std::vector<SafetensorsTensor>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  // nullptr when there is none of that name.
  const SafetensorsTensor* Find(std::string_view name) const { return header_.Find(name); }
  // Throws kIo when there is none of that name.
  const SafetensorsTensor& At(std::string_view name) const;

  // First byte of the tensor, from the beginning of the file.
  uint64_t FileOffset(const SafetensorsTensor& tensor) const {
    return data_offset_ + tensor.offset;
  }
  std::span<const std::byte> Bytes(const SafetensorsTensor& tensor) const;
  // Throws kIo for a dtype that tensors here cannot have, for more than four dimensions, or when
  // the file placed the tensor where its elements would be misaligned.
  ConstTensorView View(const SafetensorsTensor& tensor) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  uint64_t data_offset_ = 0;
};

}  // namespace opst

#endif  // OPST_IO_SAFETENSORS_H_
