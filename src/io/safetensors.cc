// One safetensors file opened for reading: its tensors, metadata and bytes; shards are joined
// elsewhere.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.h"

#include "base/check.h"
#include "io/quote.h"
#include "io/safetensors_dtype.h"

namespace opst {

bool IsPaddingName(std::string_view name) { return name.starts_with("pad."); }

SafetensorsFile SafetensorsFile::Open(const std::string& path, LoadOptions options) {
  SafetensorsFile result;
  result.file_ = MappedFile::Open(path, options);
  const std::span<const std::byte> bytes = result.file_.bytes();
  OPST_CHECK_IO(bytes.size() >= kSafetensorsLengthBytes, path,
                "file must begin with the 8 bytes of its header length", bytes.size(), " bytes");
  uint64_t header_bytes = 0;
  for (size_t i = kSafetensorsLengthBytes; i-- > 0;) {
    header_bytes = header_bytes << 8 | std::to_integer<uint64_t>(bytes[i]);
  }
  OPST_CHECK_IO(header_bytes <= kSafetensorsMaxHeaderBytes, path,
                "header length must be at most 100000000", header_bytes);
  OPST_CHECK_IO(header_bytes <= bytes.size() - kSafetensorsLengthBytes, path,
                "header must lie inside the file", header_bytes, " bytes of header, file of ",
                bytes.size(), " bytes (is it truncated?)");
  result.data_offset_ = kSafetensorsLengthBytes + header_bytes;
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()) + kSafetensorsLengthBytes,
                              static_cast<size_t>(header_bytes));
  result.header_ = ParseSafetensorsHeader(json, bytes.size() - result.data_offset_, path);
  return result;
}

const SafetensorsTensor& SafetensorsFile::At(std::string_view name) const {
  const SafetensorsTensor* tensor = Find(name);
  OPST_CHECK_IO(tensor != nullptr, path(), "file must hold the tensor asked for", "none named ",
                Quote(name));
  return *tensor;
}

std::span<const std::byte> SafetensorsFile::Bytes(const SafetensorsTensor& tensor) const {
  return file_.bytes().subspan(static_cast<size_t>(FileOffset(tensor)),
                               static_cast<size_t>(tensor.num_bytes));
}

ConstTensorView SafetensorsFile::View(const SafetensorsTensor& tensor) const {
  const std::optional<DType> dtype = DTypeFromSafetensors(tensor.dtype);
  OPST_CHECK_IO(dtype.has_value(), path(), "dtype must be one of our element types",
                tensor.Describe());
  OPST_CHECK_IO(tensor.shape.size() <= Shape::kMaxRank, path(),
                "tensors used here must have at most four dimensions", tensor.Describe());
  OPST_CHECK_IO(FileOffset(tensor) % ByteSize(*dtype) == 0, path(),
                "tensors must begin at a multiple of their element size", tensor.Describe(),
                " at byte ", FileOffset(tensor));
  return ConstTensorView(Bytes(tensor).data(), *dtype, Shape(tensor.shape));
}

}  // namespace opst
