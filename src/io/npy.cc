// Parses the header, a literal of a Python dictionary with three keys.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "io/quote.h"
#include "io/safetensors_dtype.h"

namespace opst {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostHeaderBytes = 1 << 16;
constexpr size_t kMostDimensions = 32;

struct TypeName {
  std::string_view descr;
  DType dtype;
};
// "<" = little endian, "|" = a single byte.
constexpr TypeName kTypes[] = {
    {"<f4", DType::kF32}, {"<f2", DType::kF16}, {"<f8", DType::kF64},
    {"|i1", DType::kI8},  {"|u1", DType::kU8},  {"<i2", DType::kI16},
    {"<i4", DType::kI32}, {"<i8", DType::kI64}, {"|b1", DType::kBool},
};

// Walks the text of a header; every Take either consumes what it names or leaves the text alone.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : rest_(text) {}

  bool Take(char symbol) {
    SkipSpaces();
    if (rest_.empty() || rest_.front() != symbol) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<std::string_view> TakeString() {
    SkipSpaces();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool TakeWord(std::string_view word) {
    SkipSpaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<int64_t> TakeInteger() {
    SkipSpaces();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  bool is_at_end() {
    SkipSpaces();
    return rest_.empty();
  }

 private:
  void SkipSpaces() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) {
      rest_.remove_prefix(1);
    }
  }
  std::string_view rest_;
};

struct Header {
  std::optional<std::string_view> descr;
  std::optional<bool> is_column_major;
  std::optional<std::vector<int64_t>> shape;
};

// "(3, 4)", "(3,)", "()"
std::optional<std::vector<int64_t>> TakeShape(HeaderText& text) {
  std::vector<int64_t> shape;
  if (!text.Take('(')) return std::nullopt;
  while (!text.Take(')')) {
    const std::optional<int64_t> extent = text.TakeInteger();
    if (!extent || shape.size() == kMostDimensions) return std::nullopt;
    shape.push_back(*extent);
    if (!text.Take(',')) {
      if (!text.Take(')')) return std::nullopt;
      break;
    }
  }
  return shape;
}

// Nothing unless each of the three keys stands there once, and nothing else.
std::optional<Header> ParseHeader(std::string_view header_text) {
  HeaderText text(header_text);
  Header header;
  if (!text.Take('{')) return std::nullopt;
  while (!text.Take('}')) {
    const std::optional<std::string_view> key = text.TakeString();
    if (!key || !text.Take(':')) return std::nullopt;
    if (*key == "descr" && !header.descr) {
      header.descr = text.TakeString();
      if (!header.descr) return std::nullopt;
    } else if (*key == "fortran_order" && !header.is_column_major) {
      const bool is_true = text.TakeWord("True");
      if (!is_true && !text.TakeWord("False")) return std::nullopt;
      header.is_column_major = is_true;
    } else if (*key == "shape" && !header.shape) {
      header.shape = TakeShape(text);
      if (!header.shape) return std::nullopt;
    } else {
      return std::nullopt;
    }
    if (!text.Take(',')) {
      if (!text.Take('}')) return std::nullopt;
      break;
    }
  }
  const bool is_complete = header.descr && header.is_column_major && header.shape;
  return is_complete && text.is_at_end() ? std::optional(header) : std::nullopt;
}

// Where the header's text begins, and its length; nothing for another file.
std::optional<std::pair<size_t, size_t>> LocateHeader(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < kMagic.size() + 4) return std::nullopt;
  const char major = text[kMagic.size()];
  if (major < 1 || major > 3) return std::nullopt;
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t begin = kMagic.size() + 2 + length_bytes;
  if (text.size() < begin) return std::nullopt;
  uint32_t length = 0;  // little endian, as this machine is
  std::memcpy(&length, bytes.data() + begin - length_bytes, length_bytes);
  if (length > kMostHeaderBytes || length > text.size() - begin) return std::nullopt;
  return std::pair(begin, static_cast<size_t>(length));
}

}  // namespace

NpyFile NpyFile::Open(const std::string& path) {
  NpyFile npy;
  npy.file_ = MappedFile::Open(path);
  const std::span<const std::byte> bytes = npy.file_.bytes();
  const auto place = LocateHeader(bytes);
  OPST_CHECK_IO(place.has_value(), path, "must be a .npy file of version 1 to 3",
                "another beginning");
  const auto [begin, length] = *place;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + begin, length);
  const std::optional<Header> header = ParseHeader(text);
  OPST_CHECK_IO(header.has_value(), path, "the header must have descr, fortran_order and shape",
                Quote(text));
  OPST_CHECK_IO(!*header->is_column_major, path,
                "arrays must be row-major (numpy.ascontiguousarray)", "fortran_order True");
  std::optional<DType> dtype;
  for (const TypeName& type : kTypes) {
    if (type.descr == *header->descr) dtype = type.dtype;
  }
  OPST_CHECK_IO(dtype.has_value(), path,
                "elements must be little-endian floats, integers or booleans",
                Quote(*header->descr));
  npy.dtype_ = *dtype;
  npy.shape_ = *header->shape;
  npy.data_offset_ = begin + length;
  const auto num_bytes = TensorBytes(npy.shape_, static_cast<uint32_t>(8 * ByteSize(*dtype)));
  OPST_CHECK_IO(num_bytes && *num_bytes == bytes.size() - npy.data_offset_, path,
                Concat("the data must be ", ShapeText(npy.shape_), " ", Name(*dtype)),
                bytes.size() - npy.data_offset_, " bytes");
  return npy;
}

}  // namespace opst
