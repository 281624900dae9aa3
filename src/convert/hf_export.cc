// Unpacks a packed file into a Hugging Face folder, tensor by tensor.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/hf_export.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "convert/source_map.h"
#include "io/output_file.h"
#include "io/quote.h"
#include "io/safetensors_dtype.h"
#include "io/safetensors_writer.h"
#include "model/family.h"
#include "opst/convert.h"

namespace opst {
namespace {

// Rows of one packed matrix that fill a part of a source tensor.
struct Filling {
  const MappedTensor* mapped = nullptr;
  int64_t matrix = 0;
  int64_t first_row = 0;      // of the matrix
  int64_t first_element = 0;  // the same for rows and vectors, whose parts may differ in length
  const SourceRows* part = nullptr;
};
using Fillings = std::map<const SourceTensor*, std::vector<Filling>>;

// "a ... b" and "a, b, c" as their names.
std::vector<std::string> NamesIn(const std::string& text) {
  if (const size_t dots = text.find(" ... "); dots != std::string::npos) {
    return {text.substr(0, dots), text.substr(dots + 5)};
  }
  std::vector<std::string> names;
  for (const std::string_view name : Split(text, ',')) names.emplace_back(Trim(name));
  return names;
}

Fillings FillingsOf(const SourceMap& sources) {
  Fillings fillings;
  for (const MappedTensor& mapped : sources.tensors()) {
    for (size_t matrix = 0; matrix < mapped.matrices.size(); ++matrix) {
      int64_t row = 0;
      int64_t element = 0;
      for (const SourceRows& part : mapped.matrices[matrix].parts) {
        fillings[part.tensor].push_back(
            {&mapped, static_cast<int64_t>(matrix), row, element, &part});
        row += part.num_rows;
        element += part.num_rows * part.columns;
      }
    }
  }
  return fillings;
}

// Copies a row of `filling.part` out of a panel or a plain row; `from(k)` is where element k
// stands.
template <typename From>
void CopyRow(const Filling& filling, int64_t row, size_t element_bytes, const From& from,
             std::byte* out) {
  const SourceRows& part = *filling.part;
  const SourceStrides strides =
      part.strides.value_or(SourceStrides{part.first_row * part.columns, part.columns, 1});
  for (int64_t k = 0; k < part.columns; ++k) {
    const int64_t to = strides.first + row * strides.row + k * strides.column;
    std::memcpy(out + static_cast<size_t>(to) * element_bytes, from(k), element_bytes);
  }
}

void Fill(const PackedModel& model, const Filling& filling, size_t element_bytes, std::byte* out) {
  const PackedTensor& packed = filling.mapped->packed;
  const SafetensorsTensor& stored = model.file().At(packed.name());
  const std::byte* data = model.file().Bytes(stored).data();
  const int64_t rows = filling.part->num_rows;
  if (packed.storage != Storage::kPanels) {
    const int64_t columns = filling.part->columns;
    for (int64_t row = 0; row < rows; ++row) {
      const std::byte* begin =
          data + static_cast<size_t>(filling.first_element + row * columns) * element_bytes;
      CopyRow(
          filling, row, element_bytes,
          [&](int64_t k) { return begin + static_cast<size_t>(k) * element_bytes; }, out);
    }
    return;
  }
  const PanelLayout layout = packed.layout_as(FormatOf(*DTypeFromSafetensors(stored.dtype)));
  data += static_cast<size_t>(filling.matrix) * layout.matrix_bytes();
  for (int64_t panel = 0; panel < layout.num_panels(); ++panel) {
    for (int64_t lane = 0; lane < PanelLayout::kWidth; ++lane) {
      const int64_t source_row = layout.SourceRow(panel, lane);
      const int64_t row = source_row - filling.first_row;
      if (source_row < 0 || row < 0 || row >= rows) continue;
      CopyRow(
          filling, row, element_bytes,
          [&](int64_t k) { return data + layout.ElementOffset(panel, lane, k); }, out);
    }
  }
}

// Integers have lost the source's bits.
void CheckIsFloat(const PackedModel& model) {
  for (const SafetensorsTensor& tensor : model.file().tensors()) {
    if (tensor.name.starts_with(kFilePrefix) || IsPaddingName(tensor.name)) continue;
    const auto dtype = DTypeFromSafetensors(tensor.dtype);
    OPST_CHECK_IO(dtype && IsModelFloat(*dtype), model.file().path(),
                  "only float weights go back to a Hugging Face folder; convert the source again",
                  tensor.Describe());
  }
}

// The element type of every source tensor: that of what it fills.
std::vector<SafetensorsDeclaration> Declarations(const PackedModel& model,
                                                 const RecordedSource& recorded,
                                                 const Fillings& fillings) {
  std::vector<SafetensorsDeclaration> declarations;
  for (const SourceTensor& source : recorded.declared()) {
    const std::string name = fillings.at(&source).front().mapped->packed.name();
    declarations.push_back({source.name(), model.file().At(name).dtype, source.tensor->shape});
  }
  return declarations;
}

void WriteText(const std::string& folder, std::string_view name, std::string_view content) {
  OutputFile file(JoinPath(folder, name));
  file.Write(std::as_bytes(std::span(content)));
  file.Commit();
}

// A new folder that goes again with everything in it unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path) : path_(path) {
    std::error_code error;
    OPST_CHECK_IO(std::filesystem::create_directory(path, error), path,
                  "folder must not exist yet, and its parent must",
                  error ? error.message() : "there already");
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!is_kept_) std::filesystem::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  void Keep() { is_kept_ = true; }

 private:
  std::string path_;
  bool is_kept_ = false;
};

}  // namespace

RecordedSource::RecordedSource(const PackedModel& model) {
  folder_ = model.file().path();
  std::map<std::string, std::vector<int64_t>> shapes;
  const auto& metadata = model.file().metadata();
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with(kSourcePrefix)) continue;
    const std::string packed = key.substr(kSourcePrefix.size());
    const auto recorded = metadata.find(Concat(kSourceShapePrefix, packed));
    for (const std::string& name : NamesIn(value)) {
      std::vector<int64_t>& shape = shapes[name];
      if (recorded == metadata.end()) continue;
      const SafetensorsTensor* vector = model.file().Find(packed);
      shape = {1, vector != nullptr && vector->shape.size() == 1 ? vector->shape[0] : 0};
      OPST_CHECK_IO(shape[1] > 0 && recorded->second == ShapeText(shape), folder_,
                    Concat(recorded->first, " must be one row of the vector's length"),
                    Quote(recorded->second));
    }
  }
  for (const auto& [name, shape] : shapes) AddPlain(name, "F32", shape, nullptr);
  IndexNames();
}

const SourceTensor* RecordedSource::Declare(const std::string& name,
                                            const std::vector<int64_t>& shape) const {
  const auto known = by_name_.find(name);
  if (known != by_name_.end()) return known->second;
  shapes_.push_back({name, "F32", shape, 0, 0});
  declared_.push_back({0, &shapes_.back()});
  by_name_.emplace(name, &declared_.back());
  return &declared_.back();
}

void ExportToHuggingFace(const std::string& packed, const std::string& folder) {
  return NamingOutOfMemory(packed, [&] {
    const auto model = PackedModel::Open(packed, LoadMode::kMap);
    CheckIsFloat(*model);
    const ModelConfig& config = model->config();
    const RecordedSource recorded(*model);
    const SourceMap sources(recorded, FindFamily(config.family, packed), config);
    const Fillings fillings = FillingsOf(sources);
    NewFolder created(folder);
    SafetensorsWriter writer(JoinPath(folder, "model.safetensors"),
                             Declarations(*model, recorded, fillings), {{"format", "pt"}},
                             {.alignment = 1});
    for (const SourceTensor& source : recorded.declared()) {
      const std::vector<Filling>& parts = fillings.at(&source);
      const std::string& dtype = model->file().At(parts.front().mapped->packed.name()).dtype;
      const size_t element_bytes = ByteSize(*DTypeFromSafetensors(dtype));
      uint64_t elements = 1;
      for (const int64_t extent : source.tensor->shape) elements *= static_cast<uint64_t>(extent);
      const AlignedBuffer buffer(static_cast<size_t>(elements) * element_bytes);
      for (const Filling& part : parts) Fill(*model, part, element_bytes, buffer.data());
      writer.Append(source.name(), {buffer.data(), buffer.size()});
    }
    writer.Finish();
    WriteText(folder, "config.json", model->file().metadata().at(std::string(kConfigKey)));
    for (const SafetensorsTensor& tensor : model->file().tensors()) {
      if (!tensor.name.starts_with(kFilePrefix)) continue;
      const std::string name = tensor.name.substr(kFilePrefix.size());
      OPST_CHECK_IO(!name.empty() && name.find('/') == std::string::npos && name[0] != '.', packed,
                    "text files must have plain names", Quote(name));
      WriteText(folder, name, *model->TextFile(name));
    }
    created.Keep();
  });
}

}  // namespace opst
