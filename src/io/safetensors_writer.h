// Writes a safetensors file tensor by tensor without holding any of it; knows no packing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_SAFETENSORS_WRITER_H_
#define OPST_IO_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/output_file.h"
#include "io/safetensors_header.h"

namespace opst {

struct SafetensorsDeclaration {
  std::string name;
  std::string dtype;  // the format's spelling, "BF16"; SafetensorsSpelling(dtype) gives it
  std::vector<int64_t> shape;
};

struct SafetensorsWriterOptions {
  IfExists if_exists = IfExists::kRefuse;
  // Every tensor begins at a multiple of this many bytes of the file: spaces fill up the header,
  // and tensors "pad.<n>" (U8, zeros) the gaps, since the format allows none. 1 = no padding.
  uint64_t alignment = 64;
};

// Declare everything, then Append the bytes in the declared order, then Finish. Nothing appears
// under `path` before Finish returns. Errors: kInvalidArgument for a wrong declaration or order
// (names must be unique UTF-8 and must not begin with "pad."), kIo from the disk. Not thread safe.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, std::vector<SafetensorsDeclaration> tensors,
                    std::map<std::string, std::string> metadata,
                    SafetensorsWriterOptions options = {});

  // Length the finished file will have; its disk space is already taken.
  uint64_t file_bytes() const { return data_offset_ + data_bytes_; }

  // Adds bytes to the tensor `name`: the one being written, or the next one when that is complete.
  // Tensors without elements are passed over.
  void Append(std::string_view name, std::span<const std::byte> bytes);

  // Changes a declared value until Finish, e.g. a checksum known only after its tensor was written.
  // The header keeps its length, so declare a placeholder that is at least as long.
  void SetMetadata(const std::string& key, const std::string& value);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Every tensor must be complete.
  void Finish();

 private:
  void Declare(std::vector<SafetensorsDeclaration> declarations, uint64_t alignment);
  std::string HeaderText() const;
  // Moves `current_` to the first tensor from there on that wants bytes, and writes padding.
  void Advance();
  [[noreturn]] void Fail(std::string_view rule, const std::string& facts) const;

  std::map<std::string, std::string> metadata_;
  uint64_t header_bytes_ = 0;               // needed by now, without the spaces
  std::vector<SafetensorsTensor> tensors_;  // with padding, in file order
  uint64_t data_bytes_ = 0;
  uint64_t data_offset_ = 0;
  OutputFile output_;
  size_t current_ = 0;
  uint64_t current_bytes_ = 0;  // written of tensors_[current_]
};

}  // namespace opst

#endif  // OPST_IO_SAFETENSORS_WRITER_H_
