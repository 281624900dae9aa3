// The JSON header of a safetensors file, parsed and checked against the length of its data.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_header.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/json_events.h"
#include "io/quote.h"
#include "io/safetensors_dtype.h"

namespace opst {
namespace {

constexpr size_t kMaxRank = 64;
constexpr size_t kMaxDtypeBytes = 32;
// A map entry takes twenty times the memory of the shortest one in the file.
constexpr size_t kMaxMetadataEntries = 1'000'000;

// Collects tensors and metadata in header order. Depth is bounded by the structure itself.
class HeaderReader final : public JsonEvents {
 public:
  HeaderReader(SafetensorsHeader* header, const std::string& where)
      : JsonEvents(where), header_(header) {}

  bool start_object(size_t) override {
    if (level_ == Level::kOutside) {
      level_ = Level::kTop;
    } else if (level_ == Level::kTop && key_ == "__metadata__") {
      if (has_metadata_) Fail("keys must be unique", "it appears twice");
      has_metadata_ = true;
      level_ = Level::kMetadata;
    } else if (level_ == Level::kTop) {
      BeginTensor();
    } else {
      Unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (level_ == Level::kTensor) EndTensor();
    level_ = level_ == Level::kTop ? Level::kOutside : Level::kTop;
    return true;
  }

  bool key(string_t& text) override {
    if (level_ == Level::kTensor) {
      BeginField(text);
    } else if (level_ == Level::kMetadata) {
      metadata_key_ = std::move(text);
    } else {
      key_ = std::move(text);
    }
    return true;
  }

  bool string(string_t& text) override {
    if (level_ == Level::kMetadata) {
      const bool is_new = header_->metadata.emplace(metadata_key_, std::move(text)).second;
      if (!is_new) Fail("keys must be unique", "it appears twice");
      if (header_->metadata.size() > kMaxMetadataEntries) {
        Fail("metadata must have at most 1000000 entries", "more");
      }
    } else if (level_ == Level::kTensor && field_ == Field::kDtype) {
      if (text.size() > kMaxDtypeBytes) Fail("dtype must be a short name", Quote(text, 40));
      tensor().dtype = text;
    } else {
      Unexpected("a string");
    }
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != Level::kTensor || (field_ != Field::kShape && field_ != Field::kOffsets)) {
      Unexpected("an array");
    }
    level_ = Level::kArray;
    return true;
  }

  bool end_array() override {
    if (field_ == Field::kOffsets && offsets_.size() != 2) {
      Fail("data_offsets must be two numbers", offsets_.size());
    }
    level_ = Level::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != Level::kArray) Unexpected("a number");
    if (field_ == Field::kOffsets) {
      if (offsets_.size() == 2) Fail("data_offsets must be two numbers", "more");
      offsets_.push_back(value);
      return true;
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fail("dimensions must fit 63 bits", std::to_string(value));
    }
    if (tensor().shape.size() == kMaxRank) Fail("shape must have at most 64 dimensions", "more");
    tensor().shape.push_back(static_cast<int64_t>(value));
    return true;
  }

 private:
  enum class Level { kOutside, kTop, kMetadata, kTensor, kArray };
  enum class Field : unsigned { kDtype = 1, kShape = 2, kOffsets = 4 };

  using JsonEvents::Fail;
  [[noreturn]] void Fail(std::string_view rule, size_t found) const {
    Fail(rule, std::to_string(found));
  }

  std::string Place() const override {
    switch (level_) {
      case Level::kOutside:
        return "header";
      case Level::kTop:
        return Concat("entry ", Quote(key_));
      case Level::kMetadata:
        return Concat("metadata ", Quote(metadata_key_));
      default:
        return Concat("tensor ", Quote(key_));
    }
  }

  SafetensorsTensor& tensor() { return header_->tensors.back(); }

  void BeginTensor() {
    if (header_->tensors.size() == std::numeric_limits<uint32_t>::max()) {
      Fail("header must list at most 2^32 - 1 tensors", "more");
    }
    header_->tensors.emplace_back().name = key_;
    level_ = Level::kTensor;
    seen_fields_ = 0;
    offsets_.clear();
  }

  void BeginField(const std::string& name) {
    if (name == "dtype") {
      field_ = Field::kDtype;
    } else if (name == "shape") {
      field_ = Field::kShape;
    } else if (name == "data_offsets") {
      field_ = Field::kOffsets;
    } else {
      Fail("fields must be dtype, shape and data_offsets", Quote(name));
    }
    const auto bit = static_cast<unsigned>(field_);
    if ((seen_fields_ & bit) != 0) Fail("fields must be unique", Quote(name));
    seen_fields_ |= bit;
  }

  void EndTensor() {
    if (seen_fields_ != 7) {
      Fail("tensors must have the fields dtype, shape and data_offsets", "one is missing");
    }
    if (offsets_[0] > offsets_[1]) {
      Fail("data_offsets must not end before they begin",
           Concat("[", offsets_[0], ",", offsets_[1], "]"));
    }
    tensor().offset = offsets_[0];
    tensor().num_bytes = offsets_[1] - offsets_[0];
    tensor().shape.shrink_to_fit();
  }

  SafetensorsHeader* header_;
  Level level_ = Level::kOutside;
  std::string key_;
  std::string metadata_key_;
  bool has_metadata_ = false;
  Field field_ = Field::kDtype;
  unsigned seen_fields_ = 0;
  std::vector<uint64_t> offsets_;
};

void CheckSize(const SafetensorsTensor& tensor, const std::string& where) {
  const std::optional<uint32_t> bits = SafetensorsBits(tensor.dtype);
  if (!bits) return;  // whoever asks for this tensor's values is told
  const std::optional<uint64_t> expected = TensorBytes(tensor.shape, *bits);
  OPST_CHECK_IO(expected.has_value(), where, "tensor size must be whole bytes, below 2^60",
                tensor.Describe());
  OPST_CHECK_IO(*expected == tensor.num_bytes, where,
                "tensor bytes must equal shape times element size", tensor.Describe(), " = ",
                *expected, " bytes, data_offsets [", tensor.offset, ",",
                tensor.offset + tensor.num_bytes, "]");
}

// Sorts by position; the tensors must then follow each other and end exactly with the data.
void CheckOffsets(std::vector<SafetensorsTensor>* tensors, uint64_t data_bytes,
                  const std::string& where) {
  const auto comes_before = [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.num_bytes < b.num_bytes;
  };
  if (!std::is_sorted(tensors->begin(), tensors->end(), comes_before)) {
    std::stable_sort(tensors->begin(), tensors->end(), comes_before);
  }
  uint64_t end = 0;
  for (const SafetensorsTensor& tensor : *tensors) {
    OPST_CHECK_IO(tensor.offset == end, where, "tensors must follow each other without holes",
                  tensor.Describe(), " at ", tensor.offset, ", the bytes before it end at ", end);
    end += tensor.num_bytes;  // = the tensor's end offset, so no overflow
  }
  OPST_CHECK_IO(end == data_bytes, where, "file must be as long as its header says", data_bytes,
                " bytes of data, tensors need ", end,
                end > data_bytes ? " (is the file truncated?)" : "");
}

void IndexNames(SafetensorsHeader* header, const std::string& where) {
  const std::vector<SafetensorsTensor>& tensors = header->tensors;
  header->by_name.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) header->by_name[i] = static_cast<uint32_t>(i);
  std::sort(header->by_name.begin(), header->by_name.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  for (size_t i = 1; i < tensors.size(); ++i) {
    const std::string& name = tensors[header->by_name[i]].name;
    OPST_CHECK_IO(tensors[header->by_name[i - 1]].name != name, where,
                  "tensor names must be unique", Quote(name), " twice");
  }
}

}  // namespace

std::string SafetensorsTensor::Describe() const {
  return Concat(Quote(name), " ", dtype, " ", ShapeText(shape));
}

const SafetensorsTensor* SafetensorsHeader::Find(std::string_view name) const {
  const auto found = std::lower_bound(by_name.begin(), by_name.end(), name,
                                      [&](uint32_t index, std::string_view wanted) {
                                        return std::string_view(tensors[index].name) < wanted;
                                      });
  if (found == by_name.end() || tensors[*found].name != name) return nullptr;
  return &tensors[*found];
}

SafetensorsHeader ParseSafetensorsHeader(std::string_view json, uint64_t data_bytes,
                                         const std::string& where) {
  OPST_CHECK_IO(json.starts_with('{'), where, "header must begin with {",
                json.empty() ? "nothing" : Quote(json.substr(0, 8)));
  SafetensorsHeader header;
  HeaderReader reader(&header, where);
  ParseJsonEvents(json, reader, where);
  for (const SafetensorsTensor& tensor : header.tensors) CheckSize(tensor, where);
  CheckOffsets(&header.tensors, data_bytes, where);
  IndexNames(&header, where);
  return header;
}

}  // namespace opst
