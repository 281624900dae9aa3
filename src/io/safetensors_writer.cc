// Writes a safetensors file tensor by tensor without holding any of it; knows no packing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_writer.h"

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/check.h"
#include "io/quote.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"

namespace opst {
namespace {

// The same limit as for one tensor: far below overflow, far above any disk.
constexpr uint64_t kMaxDataBytes = uint64_t{1} << 60;

// In quotes; throws nlohmann's exception for what is not UTF-8.
std::string JsonString(const std::string& value) { return nlohmann::json(value).dump(); }

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path,
                                     std::vector<SafetensorsDeclaration> tensors,
                                     std::map<std::string, std::string> metadata,
                                     SafetensorsWriterOptions options)
    : metadata_(std::move(metadata)), output_(path, options.if_exists) {
  if (options.alignment == 0 || options.alignment > (uint64_t{1} << 30)) {
    Fail("alignment must be 1 to 2^30", Concat(options.alignment));
  }
  Declare(std::move(tensors), options.alignment);
  std::string header = HeaderText();
  header_bytes_ = header.size();
  const uint64_t unpadded = kSafetensorsLengthBytes + header_bytes_;
  data_offset_ = (unpadded + options.alignment - 1) / options.alignment * options.alignment;
  header.resize(static_cast<size_t>(data_offset_ - kSafetensorsLengthBytes), ' ');
  if (header.size() > kSafetensorsMaxHeaderBytes) {
    Fail("header must have at most 100000000 bytes", Concat(header.size()));
  }
  output_.Reserve(file_bytes());
  std::array<std::byte, kSafetensorsLengthBytes> length;
  for (size_t i = 0; i < length.size(); ++i) length[i] = std::byte(header.size() >> (8 * i));
  output_.Write(length);
  output_.Write(AsBytes(header));
  Advance();
}

void SafetensorsWriter::Declare(std::vector<SafetensorsDeclaration> declarations,
                                uint64_t alignment) {
  std::unordered_set<std::string_view> names;
  size_t num_pads = 0;
  for (SafetensorsDeclaration& declaration : declarations) {
    SafetensorsTensor tensor;
    if (declaration.name.empty() || declaration.name == "__metadata__" ||
        IsPaddingName(declaration.name)) {
      Fail("names must not be empty, __metadata__ or pad.*", Quote(declaration.name));
    }
    const std::string facts = Concat(Quote(declaration.name), " ", Quote(declaration.dtype), " ",
                                     ShapeText(declaration.shape));
    if (!names.insert(declaration.name).second) Fail("names must be unique", facts);
    const std::optional<uint32_t> bits = SafetensorsBits(declaration.dtype);
    if (!bits) Fail("dtype must be one of the format", facts);
    const std::optional<uint64_t> num_bytes = TensorBytes(declaration.shape, *bits);
    if (!num_bytes || *num_bytes > kMaxDataBytes - data_bytes_) {
      Fail("sizes must be whole bytes, together below 2^60", facts);
    }
    // Padding stands before a tensor that needs it, so none follows the last one.
    if (*num_bytes > 0 && data_bytes_ % alignment != 0) {
      const uint64_t gap = alignment - data_bytes_ % alignment;
      tensors_.push_back(
          {Concat("pad.", num_pads++), "U8", {static_cast<int64_t>(gap)}, data_bytes_, gap});
      data_bytes_ += gap;
    }
    tensors_.push_back({declaration.name, std::move(declaration.dtype),
                        std::move(declaration.shape), data_bytes_, *num_bytes});
    data_bytes_ += *num_bytes;
  }
}

std::string SafetensorsWriter::HeaderText() const {
  std::string text = "{";
  try {
    if (!metadata_.empty()) {
      text += "\"__metadata__\":";
      text += nlohmann::json(metadata_).dump();
    }
    for (const SafetensorsTensor& tensor : tensors_) {
      if (text.size() > 1) text += ',';
      text += JsonString(tensor.name);
      text += ":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
      for (size_t i = 0; i < tensor.shape.size(); ++i) {
        if (i > 0) text += ',';
        text += std::to_string(tensor.shape[i]);
      }
      text += "],\"data_offsets\":[" + std::to_string(tensor.offset) + ',' +
              std::to_string(tensor.offset + tensor.num_bytes) + "]}";
    }
  } catch (const nlohmann::json::exception&) {
    Fail("names and metadata must be UTF-8", "other bytes");
  }
  return text + "}";
}

void SafetensorsWriter::Append(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (current_ == tensors_.size()) Fail("tensors are complete", Concat("bytes for ", Quote(name)));
  const SafetensorsTensor& tensor = tensors_[current_];
  if (tensor.name != name) {
    Fail("bytes must come in the declared order",
         Concat("bytes for ", Quote(name), " where ", tensor.Describe(), " has ", current_bytes_,
                " of ", tensor.num_bytes, " bytes"));
  }
  if (bytes.size() > tensor.num_bytes - current_bytes_) {
    Fail("a tensor must not get more bytes than it has",
         Concat(tensor.Describe(), ": ", bytes.size(), " bytes more after ", current_bytes_, " of ",
                tensor.num_bytes));
  }
  output_.Write(bytes);
  current_bytes_ += bytes.size();
  Advance();
}

void SafetensorsWriter::Advance() {
  while (current_ < tensors_.size()) {
    const SafetensorsTensor& tensor = tensors_[current_];
    if (IsPaddingName(tensor.name)) {
      const std::vector<std::byte> zeros(static_cast<size_t>(tensor.num_bytes));
      output_.Write(zeros);
    } else if (current_bytes_ < tensor.num_bytes) {
      return;
    }
    ++current_;
    current_bytes_ = 0;
  }
}

void SafetensorsWriter::SetMetadata(const std::string& key, const std::string& value) {
  const auto entry = metadata_.find(key);
  if (entry == metadata_.end()) Fail("metadata keys must be declared first", Quote(key));
  uint64_t wanted = header_bytes_;
  try {
    wanted += JsonString(value).size();
    wanted -= JsonString(entry->second).size();
  } catch (const nlohmann::json::exception&) {
    Fail("names and metadata must be UTF-8", Concat("other bytes in the value of ", Quote(key)));
  }
  if (wanted > data_offset_ - kSafetensorsLengthBytes) {
    Fail("metadata must fit the room of its placeholder", Concat(Quote(key), " = ", Quote(value)));
  }
  entry->second = value;
  header_bytes_ = wanted;
}

void SafetensorsWriter::Finish() {
  if (current_ < tensors_.size()) {
    const SafetensorsTensor& tensor = tensors_[current_];
    Fail("every tensor must be complete before Finish",
         Concat(tensor.Describe(), " has ", current_bytes_, " of ", tensor.num_bytes, " bytes"));
  }
  std::string header = HeaderText();
  header.resize(static_cast<size_t>(data_offset_ - kSafetensorsLengthBytes), ' ');
  output_.WriteAt(kSafetensorsLengthBytes, AsBytes(header));
  output_.Commit();
}

void SafetensorsWriter::Fail(std::string_view rule, const std::string& facts) const {
  ThrowInvalid("safetensors_writer", rule, Concat(output_.path(), ": ", facts));
}

}  // namespace opst
