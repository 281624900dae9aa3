// The typed key-value pairs of a GGUF file, asked for by name; no key means anything here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_GGUF_METADATA_H_
#define OPST_IO_GGUF_METADATA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opst {

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// A value where it lies in the file, already checked: lengths inside the file, bools 0 or 1.
struct GgufValue {
  GgufType type = GgufType::kU8;  // of an array: of its elements
  bool is_array = false;
  uint64_t count = 1;
  std::span<const std::byte> bytes;  // the elements; strings with their lengths
};

// Keeps views into the file's bytes. Every accessor throws kIo naming file, key and what stands
// there; those with a fallback only when the key is there and wrong.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  explicit GgufMetadata(std::string where) : where_(std::move(where)) {}

  bool Has(std::string_view key) const { return values_.contains(key); }
  const GgufValue* Find(std::string_view key) const;
  const std::map<std::string_view, GgufValue, std::less<>>& values() const { return values_; }

  // Any integer type; min ≤ value ≤ max.
  int64_t Integer(std::string_view key, int64_t min, int64_t max) const;
  int64_t Integer(std::string_view key, int64_t min, int64_t max, int64_t fallback) const;
  // F32, F64 or an integer; finite, in [min, max].
  double Number(std::string_view key, double min, double max) const;
  double Number(std::string_view key, double min, double max, double fallback) const;
  bool Bool(std::string_view key, bool fallback) const;
  std::string_view String(std::string_view key) const;
  std::string_view String(std::string_view key, std::string_view fallback) const;
  // Arrays; memory is 16 bytes a string, 8 an integer, 4 a float, at most twice the file's bytes.
  std::vector<std::string_view> Strings(std::string_view key) const;
  std::vector<int64_t> Integers(std::string_view key) const;
  std::vector<float> Floats(std::string_view key) const;

  // For the reader: false when the key is there already.
  bool Add(std::string_view key, GgufValue value) { return values_.emplace(key, value).second; }
  const std::string& where() const { return where_; }

 private:
  [[noreturn]] void Fail(std::string_view key, std::string_view rule, std::string_view got) const;
  const GgufValue& Get(std::string_view key) const;
  const GgufValue& GetArray(std::string_view key) const;

  std::string where_;
  std::map<std::string_view, GgufValue, std::less<>> values_;
};

// Bytes of one element; 0 for strings and arrays.
size_t GgufTypeBytes(GgufType type);

}  // namespace opst

#endif  // OPST_IO_GGUF_METADATA_H_
