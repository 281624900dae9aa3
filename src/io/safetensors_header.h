// The JSON header of a safetensors file, parsed and checked against the length of its data.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_SAFETENSORS_HEADER_H_
#define OPST_IO_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace opst {

// File = 8 bytes header length (little endian) + header + data.
inline constexpr uint64_t kSafetensorsLengthBytes = 8;
// The limit of the format.
inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // spelling of the file, e.g. "BF16"; may be one we do not know
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // first byte, from the beginning of the data
  uint64_t num_bytes = 0;

  // "\"name\" BF16 [8,64]", for errors.
  std::string Describe() const;
};

struct SafetensorsHeader {
  // In the order of their bytes; they follow each other without holes and fill the data.
  std::vector<SafetensorsTensor> tensors;
  std::map<std::string, std::string> metadata;
  // Indices of `tensors`, ordered by name.
  std::vector<uint32_t> by_name;

  const SafetensorsTensor* Find(std::string_view name) const;
};

// Checks everything the format promises: an object of objects with exactly the fields dtype, shape
// and data_offsets, no duplicate names or keys, sizes that equal shape times element size (unknown
// dtypes excepted), contiguous offsets that end with the data. Memory is proportional to `json`.
// Throws kIo naming `where` (the file), the tensor and the value.
SafetensorsHeader ParseSafetensorsHeader(std::string_view json, uint64_t data_bytes,
                                         const std::string& where);

}  // namespace opst

#endif  // OPST_IO_SAFETENSORS_HEADER_H_
