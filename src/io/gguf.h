// One GGUF file opened for reading: metadata, tensors and their bytes; files of a split model are
// joined elsewhere.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_GGUF_H_
#define OPST_IO_GGUF_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/ggml_type.h"
#include "io/gguf_metadata.h"
#include "io/mapped_file.h"

namespace opst {

struct GgufTensor {
  std::string name;
  const GgmlType* type = nullptr;
  std::vector<int64_t> shape;  // outermost first, unlike in the file
  uint64_t offset = 0;         // first byte, from the beginning of the file
  uint64_t num_bytes = 0;

  // "\"name\" Q4_K [8,64]", for errors.
  std::string Describe() const;
};

struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of their bytes
};

// Checks versions (2 and 3, little endian), counts against the bytes that are there, lengths,
// types, unique keys and names, extents (1 to 4 of at least 1, product below 2^60, rows of whole
// blocks), and that the tensors stand one after the other, aligned, without holes, to the end of
// `file`. Memory is proportional to what the file really holds, never to what it claims. Throws kIo
// naming `where` (the file), the key or tensor, and the value.
GgufHeader ParseGguf(std::span<const std::byte> file, const std::string& where);

// Thread safety: const members may be called from several threads.
class GgufFile {
 public:
  static GgufFile Open(const std::string& path, LoadMode mode = LoadMode::kMap);

  const std::string& path() const { return file_.path(); }
  const MappedFile& file() const { return file_; }
  const GgufHeader& header() const { return header_; }
  const GgufMetadata& metadata() const { return header_.metadata; }
  const std::vector<GgufTensor>& tensors() const { return header_.tensors; }
  std::span<const std::byte> Bytes(const GgufTensor& tensor) const {
    return file_.bytes().subspan(static_cast<size_t>(tensor.offset),
                                 static_cast<size_t>(tensor.num_bytes));
  }

 private:
  MappedFile file_;
  GgufHeader header_;
};

}  // namespace opst

#endif  // OPST_IO_GGUF_H_
