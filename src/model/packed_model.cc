// Opens and checks a packed file before any weight is used.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/packed_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/safetensors_dtype.h"
#include "kernels/rows.h"
#include "model/family.h"

namespace opst {

namespace {

// A text or an archive; a damaged packed file still begins as one.
bool IsOtherKindOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 9> bytes{};
  return file.read(bytes.data(), bytes.size()) && bytes[8] != '{';
}

}  // namespace

std::shared_ptr<const PackedModel> PackedModel::Open(const std::string& path, LoadOptions options) {
  OPST_CHECK_IO(KindOf(path) != PathKind::kFolder, path, "must be a packed file",
                "a folder; is it a checkpoint that needs `opst convert`?");
  OPST_CHECK_IO(KindOf(path) != PathKind::kFile || !IsOtherKindOfFile(path), path,
                "must be a packed file", "another kind of file; was it made by `opst convert`?");
  std::shared_ptr<PackedModel> model(new PackedModel(SafetensorsFile::Open(path, options)));
  model->self_ = model;
  model->load_options_ = options;
  model->ReadMetadata();
  model->CheckTensors();
  return model;
}

const std::string& PackedModel::Metadata(std::string_view key) const {
  const auto found = file_.metadata().find(std::string(key));
  OPST_CHECK_IO(found != file_.metadata().end(), file_.path(),
                Concat("a packed model must have the metadata ", key),
                "none; is it a checkpoint that needs `opst convert`?");
  return found->second;
}

void PackedModel::ReadMetadata() {
  const std::string& format = Metadata(kFormatKey);
  int version = 0;
  const auto [end, error] = std::from_chars(format.data(), format.data() + format.size(), version);
  OPST_CHECK_IO(error == std::errc() && end == format.data() + format.size() && version >= 1,
                file_.path(), "opst_format must be a positive number", format);
  OPST_CHECK_IO(version <= kPackedFormat, file_.path(),
                Concat("this version reads packed files up to format ", kPackedFormat,
                       "; a newer version of the library is needed"),
                "format ", version);
  if (version >= kFirstFormatWithHeaderChecksum) CheckHeader();
  config_ = ReadModelConfig(Metadata(kConfigKey), file_.path());
  OPST_CHECK_IO(config_.ToJson() == Metadata(kRecipeKey), file_.path(),
                "the recipe in the file must be the one this version reads from its config; "
                "convert the source again",
                Metadata(kRecipeKey));
  tensors_ = PackedTensors(config_);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    index_.emplace(std::pair(tensors_[i].role, tensors_[i].layer), i);
  }
}

void PackedModel::CheckHeader() const {
  std::vector<HeaderEntry> tensors;
  for (const SafetensorsTensor& stored : file_.tensors()) {
    if (IsPaddingName(stored.name)) continue;
    tensors.push_back({stored.name, stored.dtype, stored.shape});
  }
  const std::string found = HeaderChecksum(file_.metadata(), std::move(tensors));
  const std::string& expected = Metadata(kHeaderChecksumKey);
  OPST_CHECK_IO(found == expected, file_.path(),
                Concat("checksum of the header must be ", expected), found);
}

void PackedModel::CheckTensors() const {
  for (const PackedTensor& tensor : tensors_) {
    const SafetensorsTensor& stored = Stored(tensor);
    const std::vector<int64_t> shape = tensor.shape(TypeOf(tensor));
    OPST_CHECK_IO(stored.shape == shape, file_.path(),
                  Concat(tensor.name(), " must be ", ShapeText(shape)), stored.Describe());
    OPST_CHECK_IO(file_.FileOffset(stored) % 64 == 0, file_.path(),
                  "packed tensors must be 64-byte aligned", stored.Describe(), " at byte ",
                  file_.FileOffset(stored));
  }
}

const PackedTensor& PackedModel::Describe(Role role, int64_t layer) const {
  const auto found = index_.find(std::pair(role, layer));
  OPST_CHECK_ARG(found != index_.end(), "packed_model", "the recipe must have the tensor asked for",
                 "role ", static_cast<int>(role), " of layer ", layer);
  return tensors_[found->second];
}

const SafetensorsTensor& PackedModel::Stored(const PackedTensor& tensor) const {
  return file_.At(tensor.name());
}

WeightType PackedModel::TypeOf(const PackedTensor& tensor) const {
  const SafetensorsTensor& stored = Stored(tensor);
  const auto dtype = DTypeFromSafetensors(stored.dtype);
  if (tensor.is_quantizable_to(WeightFormat::kInt8)) {
    const auto type = dtype ? TypeOfPanels(*dtype, stored.shape) : std::nullopt;
    OPST_CHECK_IO(type && (!IsInteger(type->format) || tensor.is_quantizable_to(type->format)),
                  file_.path(),
                  "matrices must be F32, BF16 or F16, integers in groups of 32, 64 or 128, or, of "
                  "experts, mxfp4",
                  stored.Describe());
    return *type;
  }
  OPST_CHECK_IO(dtype && IsModelFloat(*dtype), file_.path(), "weights must be F32, BF16 or F16",
                stored.Describe());
  return FormatOf(*dtype);
}

PackedWeights PackedModel::Panels(Role role, int64_t layer) const {
  const PackedTensor& tensor = Describe(role, layer);
  return PackedWeights(tensor.layout_as(TypeOf(tensor)), tensor.num_matrices,
                       file_.Bytes(Stored(tensor)).data(), self_.lock());
}

std::vector<float> PackedModel::Vector(Role role, int64_t layer) const {
  const PackedTensor& tensor = Describe(role, layer);
  std::vector<float> values(static_cast<size_t>(tensor.layout.in));
  ConvertToFloat(DTypeOfFormat(TypeOf(tensor).format), file_.Bytes(Stored(tensor)).data(),
                 values.size(), values.data());
  return values;
}

ConstTensorView PackedModel::Rows(Role role) const {
  const PackedTensor& tensor = Describe(role, -1);
  return ConstTensorView(file_.Bytes(Stored(tensor)).data(), DTypeOfFormat(TypeOf(tensor).format),
                         {tensor.layout.out, tensor.layout.in});
}

std::optional<std::string_view> PackedModel::TextFile(std::string_view name) const {
  const SafetensorsTensor* stored = file_.Find(Concat(kFilePrefix, name));
  if (stored == nullptr) return std::nullopt;
  const auto bytes = file_.Bytes(*stored);
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void PackedModel::CheckPadding(const SafetensorsTensor& stored) const {
  const auto bytes = file_.Bytes(stored);
  const bool is_zero =
      std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
  OPST_CHECK_IO(is_zero, file_.path(), "padding must be zeros", stored.Describe());
}

void PackedModel::CheckChecksums() const {
  for (const SafetensorsTensor& stored : file_.tensors()) {
    if (IsPaddingName(stored.name)) {
      CheckPadding(stored);
      continue;
    }
    const std::string& expected = Metadata(Concat(kChecksumPrefix, stored.name));
    const std::string found = ChecksumHex(ChecksumOf(file_.Bytes(stored)));
    file_.file().DontNeed(file_.FileOffset(stored), stored.num_bytes);
    OPST_CHECK_IO(found == expected, file_.path(),
                  Concat("checksum of ", stored.name, " must be ", expected), found);
  }
}

}  // namespace opst
