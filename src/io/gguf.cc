// Parses the header of a GGUF file: every number in it is a claim that is checked before use.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/check.h"
#include "io/quote.h"
#include "io/safetensors_dtype.h"

namespace opst {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little endian");

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint64_t kMaxKeyBytes = 65535;  // the limit of the format
constexpr uint64_t kMaxNameBytes = 1024;
constexpr uint32_t kMaxRank = 4;
constexpr int64_t kMaxBytes = int64_t{1} << 60;
// Bytes that the shortest entry of each kind takes.
constexpr uint64_t kMinPairBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

// Reads forward and never past the end; `place` says what is being read.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  void SetPlace(std::string place) { place_ = std::move(place); }
  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }

  std::span<const std::byte> Take(uint64_t count, std::string_view what) {
    if (count > left()) {
      Fail(Concat(what, " must lie inside the file"),
           Concat(count, " bytes at byte ", position_, " of ", bytes_.size(),
                  " (is the file truncated?)"));
    }
    const auto taken = bytes_.subspan(static_cast<size_t>(position_), static_cast<size_t>(count));
    position_ += count;
    return taken;
  }

  template <typename T>
  T Read(std::string_view what) {
    T value;
    std::memcpy(&value, Take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string_view ReadString(uint64_t max_bytes, std::string_view what) {
    const auto length = Read<uint64_t>(what);
    if (length > max_bytes) {
      Fail(Concat(what, " must have at most ", max_bytes, " bytes"), std::to_string(length));
    }
    const auto bytes = Take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // A count whose elements take at least `min_bytes` each.
  uint64_t ReadCount(uint64_t min_bytes, std::string_view what) {
    const auto count = Read<uint64_t>(what);
    if (count > left() / min_bytes) {
      Fail(Concat(what, " must fit the file"),
           Concat(count, " entries, ", left(), " bytes are left"));
    }
    return count;
  }

  [[noreturn]] void Fail(std::string_view rule, std::string_view got) const {
    ThrowIo(where_, rule, place_.empty() ? std::string(got) : Concat(place_, ": ", got));
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
  std::string place_;
  uint64_t position_ = 0;
};

GgufType ReadType(Cursor& cursor) {
  const auto type = cursor.Read<uint32_t>("value type");
  if (type > static_cast<uint32_t>(GgufType::kF64)) {
    cursor.Fail("value type must be 0 to 12", std::to_string(type));
  }
  return static_cast<GgufType>(type);
}

// Moves over the elements of a value.
void TakeElements(Cursor& cursor, const GgufValue& value) {
  if (value.type == GgufType::kString) {
    for (uint64_t i = 0; i < value.count; ++i) cursor.ReadString(UINT64_MAX, "string");
    return;
  }
  const size_t size = GgufTypeBytes(value.type);
  if (value.count > cursor.left() / size) {
    cursor.Fail("array must fit the file",
                Concat(value.count, " elements, ", cursor.left(), " bytes are left"));
  }
  const auto bytes = cursor.Take(value.count * size, "value");
  if (value.type != GgufType::kBool) return;
  for (const std::byte flag : bytes) {
    if (flag > std::byte{1}) {
      cursor.Fail("bools must be 0 or 1", std::to_string(std::to_integer<int>(flag)));
    }
  }
}

GgufValue ReadValue(Cursor& cursor, std::span<const std::byte> file) {
  GgufValue value;
  value.type = ReadType(cursor);
  if (value.type == GgufType::kArray) {
    value.is_array = true;
    value.type = ReadType(cursor);
    if (value.type == GgufType::kArray) cursor.Fail("arrays must not hold arrays", "one that does");
    value.count =
        cursor.ReadCount(value.type == GgufType::kString ? 8 : GgufTypeBytes(value.type), "array");
  }
  const uint64_t begin = cursor.position();
  TakeElements(cursor, value);
  value.bytes =
      file.subspan(static_cast<size_t>(begin), static_cast<size_t>(cursor.position() - begin));
  return value;
}

void ReadMetadata(Cursor& cursor, std::span<const std::byte> file, uint64_t count,
                  GgufMetadata* metadata) {
  for (uint64_t i = 0; i < count; ++i) {
    cursor.SetPlace(Concat("metadata pair ", i));
    const std::string_view key = cursor.ReadString(kMaxKeyBytes, "key");
    cursor.SetPlace(Concat("metadata ", Quote(key)));
    if (!metadata->Add(key, ReadValue(cursor, file))) {
      cursor.Fail("keys must be unique", "it appears twice");
    }
  }
}

// Extents of the file are innermost first. Returns the size in bytes.
uint64_t ReadShape(Cursor& cursor, std::vector<int64_t>* shape) {
  const auto rank = cursor.Read<uint32_t>("rank");
  if (rank < 1 || rank > kMaxRank) cursor.Fail("rank must be 1 to 4", std::to_string(rank));
  int64_t elements = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    const auto extent = cursor.Read<uint64_t>("extent");
    if (extent < 1 || extent >= static_cast<uint64_t>(kMaxBytes) ||
        __builtin_mul_overflow(elements, static_cast<int64_t>(extent), &elements) ||
        elements >= kMaxBytes) {
      cursor.Fail("extents must be at least 1 and their product below 2^60",
                  Concat("extent ", i, " = ", extent));
    }
    shape->insert(shape->begin(), static_cast<int64_t>(extent));
  }
  return static_cast<uint64_t>(elements);
}

GgufTensor ReadTensor(Cursor& cursor) {
  GgufTensor tensor;
  tensor.name = cursor.ReadString(kMaxNameBytes, "tensor name");
  cursor.SetPlace(Concat("tensor ", Quote(tensor.name)));
  const uint64_t elements = ReadShape(cursor, &tensor.shape);
  const auto id = cursor.Read<uint32_t>("tensor type");
  tensor.type = FindGgmlType(id);
  if (tensor.type == nullptr) {
    cursor.Fail("tensor type must be one this version knows", std::to_string(id));
  }
  const auto block_values = static_cast<uint64_t>(tensor.type->block_values);
  if (static_cast<uint64_t>(tensor.shape.back()) % block_values != 0) {
    cursor.Fail(Concat("rows must be whole blocks of ", block_values, " values"),
                tensor.Describe());
  }
  // Below 2^60 elements of at most 8 bytes: no overflow.
  tensor.num_bytes = elements / block_values * tensor.type->block_bytes;
  tensor.offset = cursor.Read<uint64_t>("tensor offset");
  return tensor;
}

uint64_t ReadAlignment(const GgufMetadata& metadata) {
  const auto alignment = static_cast<uint64_t>(metadata.Integer(
      "general.alignment", 8, static_cast<int64_t>(kMaxAlignment), kDefaultAlignment));
  OPST_CHECK_IO(std::has_single_bit(alignment), metadata.where(),
                "general.alignment must be a power of two", alignment);
  return alignment;
}

uint64_t RoundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Tensors must follow each other at the alignment's next multiple and end with the file.
void PlaceTensors(uint64_t data_offset, uint64_t file_bytes, GgufHeader* header,
                  const std::string& where) {
  auto& tensors = header->tensors;
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const GgufTensor& a, const GgufTensor& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (GgufTensor& tensor : tensors) {
    OPST_CHECK_IO(tensor.offset == end, where,
                  Concat("tensors must follow each other, aligned to ", header->alignment,
                         " bytes, without overlap or holes"),
                  tensor.Describe(), " at ", tensor.offset, ", the bytes before it end at ", end);
    OPST_CHECK_IO(data_offset <= file_bytes && end <= file_bytes - data_offset &&
                      tensor.num_bytes <= file_bytes - data_offset - end,
                  where, "tensors must lie inside the file", tensor.Describe(), " = ",
                  tensor.num_bytes, " bytes at ", end, " of the data, file of ", file_bytes,
                  " bytes (is it truncated?)");
    end = RoundUp(end + tensor.num_bytes, header->alignment);
    tensor.offset += data_offset;
  }
  OPST_CHECK_IO(tensors.empty() || file_bytes <= data_offset + end, where,
                "file must end with its last tensor", file_bytes, " bytes, expected ",
                data_offset + end);
}

void CheckUniqueNames(const std::vector<GgufTensor>& tensors, const std::string& where) {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) {
    OPST_CHECK_IO(names.insert(tensor.name).second, where, "tensor names must be unique",
                  Quote(tensor.name), " twice");
  }
}

void ReadVersion(Cursor& cursor, GgufHeader* header) {
  const auto magic = cursor.Take(kMagic.size(), "magic");
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
    cursor.Fail("file must begin with GGUF",
                Quote({reinterpret_cast<const char*>(magic.data()), magic.size()}));
  }
  header->version = cursor.Read<uint32_t>("version");
  if (header->version != 0 && (header->version & 0xFFFF) == 0) {
    cursor.Fail("file must be little endian", "a big-endian version number");
  }
  if (header->version != 2 && header->version != 3) {
    cursor.Fail("version must be 2 or 3", std::to_string(header->version));
  }
}

}  // namespace

std::string GgufTensor::Describe() const {
  return Concat(Quote(name), " ", type == nullptr ? "?" : type->name, " ", ShapeText(shape));
}

GgufHeader ParseGguf(std::span<const std::byte> file, const std::string& where) {
  Cursor cursor(file, where);
  GgufHeader header;
  header.metadata = GgufMetadata(where);
  ReadVersion(cursor, &header);
  const uint64_t num_tensors = cursor.ReadCount(kMinTensorBytes, "tensor count");
  const uint64_t num_pairs = cursor.ReadCount(kMinPairBytes, "metadata count");
  ReadMetadata(cursor, file, num_pairs, &header.metadata);
  header.alignment = ReadAlignment(header.metadata);
  for (uint64_t i = 0; i < num_tensors; ++i) {
    cursor.SetPlace(Concat("tensor ", i));
    header.tensors.push_back(ReadTensor(cursor));
  }
  CheckUniqueNames(header.tensors, where);
  PlaceTensors(RoundUp(cursor.position(), header.alignment), file.size(), &header, where);
  return header;
}

GgufFile GgufFile::Open(const std::string& path, LoadMode mode) {
  GgufFile result;
  result.file_ = MappedFile::Open(path, mode);
  result.header_ = ParseGguf(result.file_.bytes(), path);
  return result;
}

}  // namespace opst
