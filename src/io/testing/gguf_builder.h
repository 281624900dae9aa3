// Builds the bytes of GGUF files for tests, well-formed or not; it checks nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_TESTING_GGUF_BUILDER_H_
#define OPST_IO_TESTING_GGUF_BUILDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_metadata.h"

namespace opst::testing {

class GgufBuilder {
 public:
  template <typename T>
  static std::string Raw(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(T)};
  }
  static std::string Text(std::string_view text) {
    return Raw(uint64_t{text.size()}) + std::string(text);
  }

  // `value` as it stands in the file behind its type.
  GgufBuilder& Pair(std::string_view key, GgufType type, std::string_view value) {
    pairs_ += Text(key) + Raw(static_cast<uint32_t>(type)) + std::string(value);
    ++num_pairs_;
    return *this;
  }
  GgufBuilder& U32(std::string_view key, uint32_t value) {
    return Pair(key, GgufType::kU32, Raw(value));
  }
  GgufBuilder& F32(std::string_view key, float value) {
    return Pair(key, GgufType::kF32, Raw(value));
  }
  GgufBuilder& Bool(std::string_view key, bool value) {
    return Pair(key, GgufType::kBool, Raw(static_cast<uint8_t>(value)));
  }
  GgufBuilder& String(std::string_view key, std::string_view value) {
    return Pair(key, GgufType::kString, Text(value));
  }
  GgufBuilder& Strings(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = ArrayHead(GgufType::kString, values.size());
    for (const std::string& value : values) bytes += Text(value);
    return Pair(key, GgufType::kArray, bytes);
  }
  template <typename T>
  GgufBuilder& Array(std::string_view key, GgufType type, const std::vector<T>& values) {
    std::string bytes = ArrayHead(type, values.size());
    for (const T value : values) bytes += Raw(value);
    return Pair(key, GgufType::kArray, bytes);
  }
  static std::string ArrayHead(GgufType type, uint64_t count) {
    return Raw(static_cast<uint32_t>(type)) + Raw(count);
  }

  // `extents` innermost first, as in the file. Offsets follow by themselves.
  GgufBuilder& Tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type,
                      std::string_view data) {
    Pad(data_);
    TensorInfo(name, extents, type, data_.size());
    data_ += data;
    return *this;
  }
  GgufBuilder& TensorInfo(std::string_view name, const std::vector<uint64_t>& extents,
                          uint32_t type, uint64_t offset) {
    infos_ += Text(name) + Raw(static_cast<uint32_t>(extents.size()));
    for (const uint64_t extent : extents) infos_ += Raw(extent);
    infos_ += Raw(type) + Raw(offset);
    ++num_tensors_;
    return *this;
  }

  std::string Bytes(uint32_t version = 3) const {
    std::string file =
        "GGUF" + Raw(version) + Raw(num_tensors_) + Raw(num_pairs_) + pairs_ + infos_;
    if (num_tensors_ > 0) Pad(file);
    return file + data_;
  }

  uint64_t num_tensors_ = 0;
  uint64_t num_pairs_ = 0;
  uint64_t alignment_ = 32;

 private:
  void Pad(std::string& bytes) const {
    bytes.resize((bytes.size() + alignment_ - 1) / alignment_ * alignment_);
  }

  std::string pairs_;
  std::string infos_;
  std::string data_;
};

}  // namespace opst::testing

#endif  // OPST_IO_TESTING_GGUF_BUILDER_H_
