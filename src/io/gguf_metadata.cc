// The typed key-value pairs of a GGUF file, asked for by name.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_metadata.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/check.h"
#include "io/quote.h"

namespace opst {
namespace {

template <typename T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// An integer element; none for another type or when it does not fit 63 bits.
std::optional<int64_t> IntegerAt(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::kU8:
      return Load<uint8_t>(bytes);
    case GgufType::kI8:
      return Load<int8_t>(bytes);
    case GgufType::kU16:
      return Load<uint16_t>(bytes);
    case GgufType::kI16:
      return Load<int16_t>(bytes);
    case GgufType::kU32:
      return Load<uint32_t>(bytes);
    case GgufType::kI32:
      return Load<int32_t>(bytes);
    case GgufType::kI64:
      return Load<int64_t>(bytes);
    case GgufType::kU64: {
      const auto value = Load<uint64_t>(bytes);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::string_view TypeName(GgufType type) {
  constexpr std::string_view kNames[] = {"U8",   "I8",     "U16",   "I16", "U32", "I32", "F32",
                                         "bool", "string", "array", "U64", "I64", "F64"};
  return kNames[static_cast<size_t>(type)];
}

std::string Describe(const GgufValue& value) {
  if (value.is_array) return Concat("an array of ", value.count, " ", TypeName(value.type));
  if (value.type == GgufType::kString) {
    return Quote({reinterpret_cast<const char*>(value.bytes.data()) + 8, value.bytes.size() - 8});
  }
  if (const auto integer = IntegerAt(value.type, value.bytes.data())) {
    return Concat(*integer, " (", TypeName(value.type), ")");
  }
  if (value.type == GgufType::kF32) return Concat(Load<float>(value.bytes.data()), " (F32)");
  if (value.type == GgufType::kF64) return Concat(Load<double>(value.bytes.data()), " (F64)");
  return Concat("a ", TypeName(value.type));
}

}  // namespace

size_t GgufTypeBytes(GgufType type) {
  constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

void GgufMetadata::Fail(std::string_view key, std::string_view rule, std::string_view got) const {
  ThrowIo(where_, Concat("metadata ", Quote(key), " ", rule), got);
}

const GgufValue* GgufMetadata::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const GgufValue& GgufMetadata::Get(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) Fail(key, "must be there", "none");
  return *value;
}

const GgufValue& GgufMetadata::GetArray(std::string_view key) const {
  const GgufValue& value = Get(key);
  if (!value.is_array) Fail(key, "must be an array", Describe(value));
  return value;
}

int64_t GgufMetadata::Integer(std::string_view key, int64_t min, int64_t max) const {
  const GgufValue& value = Get(key);
  const auto integer = value.is_array ? std::nullopt : IntegerAt(value.type, value.bytes.data());
  if (!integer || *integer < min || *integer > max) {
    Fail(key, Concat("must be an integer from ", min, " to ", max), Describe(value));
  }
  return *integer;
}

int64_t GgufMetadata::Integer(std::string_view key, int64_t min, int64_t max,
                              int64_t fallback) const {
  return Has(key) ? Integer(key, min, max) : fallback;
}

double GgufMetadata::Number(std::string_view key, double min, double max) const {
  const GgufValue& value = Get(key);
  double number = std::nan("");
  if (!value.is_array) {
    if (const auto integer = IntegerAt(value.type, value.bytes.data())) {
      number = static_cast<double>(*integer);
    } else if (value.type == GgufType::kF32) {
      number = static_cast<double>(Load<float>(value.bytes.data()));
    } else if (value.type == GgufType::kF64) {
      number = Load<double>(value.bytes.data());
    }
  }
  if (!(number >= min && number <= max)) {
    Fail(key, Concat("must be a number from ", min, " to ", max), Describe(value));
  }
  return number;
}

double GgufMetadata::Number(std::string_view key, double min, double max, double fallback) const {
  return Has(key) ? Number(key, min, max) : fallback;
}

bool GgufMetadata::Bool(std::string_view key, bool fallback) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_array || value->type != GgufType::kBool)
    Fail(key, "must be a bool", Describe(*value));
  return value->bytes[0] != std::byte{0};
}

std::string_view GgufMetadata::String(std::string_view key) const {
  const GgufValue& value = Get(key);
  if (value.is_array || value.type != GgufType::kString) {
    Fail(key, "must be a string", Describe(value));
  }
  return {reinterpret_cast<const char*>(value.bytes.data()) + 8, value.bytes.size() - 8};
}

std::string_view GgufMetadata::String(std::string_view key, std::string_view fallback) const {
  return Has(key) ? String(key) : fallback;
}

std::vector<std::string_view> GgufMetadata::Strings(std::string_view key) const {
  const GgufValue& value = GetArray(key);
  if (value.type != GgufType::kString) Fail(key, "must be an array of strings", Describe(value));
  std::vector<std::string_view> strings;
  strings.reserve(static_cast<size_t>(value.count));
  const std::byte* at = value.bytes.data();
  for (uint64_t i = 0; i < value.count; ++i) {
    const auto length = static_cast<size_t>(Load<uint64_t>(at));
    strings.emplace_back(reinterpret_cast<const char*>(at) + 8, length);
    at += 8 + length;
  }
  return strings;
}

std::vector<int64_t> GgufMetadata::Integers(std::string_view key) const {
  const GgufValue& value = GetArray(key);
  std::vector<int64_t> integers;
  integers.reserve(static_cast<size_t>(value.count));
  for (uint64_t i = 0; i < value.count; ++i) {
    const auto integer = IntegerAt(value.type, value.bytes.data() + i * GgufTypeBytes(value.type));
    if (!integer) Fail(key, "must be an array of integers", Describe(value));
    integers.push_back(*integer);
  }
  return integers;
}

std::vector<float> GgufMetadata::Floats(std::string_view key) const {
  const GgufValue& value = GetArray(key);
  if (value.type != GgufType::kF32) Fail(key, "must be an array of F32", Describe(value));
  std::vector<float> floats(static_cast<size_t>(value.count));
  if (!floats.empty()) std::memcpy(floats.data(), value.bytes.data(), value.bytes.size());
  return floats;
}

}  // namespace opst
