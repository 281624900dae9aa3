// The conversion as a whole: read the config, map the sources, write tensor after tensor.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/convert.h"

#include <array>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "convert/matrix_packer.h"
#include "convert/source_map.h"
#include "io/checksum.h"
#include "io/safetensors_dtype.h"
#include "io/safetensors_writer.h"

namespace opst {
namespace {

constexpr uint64_t kMaxTextFileBytes = uint64_t{128} << 20;
// Files of the source that travel inside the packed one.
constexpr std::array<std::string_view, 5> kTextFiles = {
    "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja",
    "special_tokens_map.json"};

struct TextFile {
  std::string name;
  std::string content;
};

std::vector<TextFile> ReadTextFiles(const std::string& folder) {
  std::vector<TextFile> files;
  for (const std::string_view name : kTextFiles) {
    const std::string path = JoinPath(folder, name);
    if (KindOf(path) != PathKind::kFile) continue;
    std::string content = ReadWholeFile(path, kMaxTextFileBytes);
    if (!content.empty()) files.push_back({std::string(name), std::move(content)});
  }
  return files;
}

std::string Key(std::string_view prefix, std::string_view name) { return Concat(prefix, name); }

std::map<std::string, std::string> Metadata(const std::string& config_json,
                                            const ModelConfig& config, const SourceMap& sources,
                                            const std::vector<TextFile>& files) {
  const std::string no_checksum(16, '0');  // replaced when the tensor is written
  std::map<std::string, std::string> metadata;
  metadata[std::string(kFormatKey)] = std::to_string(kPackedFormat);
  metadata[std::string(kConfigKey)] = config_json;
  metadata[std::string(kRecipeKey)] = config.ToJson();
  for (const MappedTensor& tensor : sources.tensors()) {
    metadata[Key(kSourcePrefix, tensor.packed.name())] = tensor.source_names();
    metadata[Key(kChecksumPrefix, tensor.packed.name())] = no_checksum;
  }
  for (const TextFile& file : files) {
    metadata[Key(kChecksumPrefix, Concat(kFilePrefix, file.name))] = no_checksum;
  }
  return metadata;
}

std::vector<SafetensorsDeclaration> Declarations(const SourceMap& sources,
                                                 const std::vector<TextFile>& files) {
  std::vector<SafetensorsDeclaration> declarations;
  for (const TextFile& file : files) {
    declarations.push_back(
        {Concat(kFilePrefix, file.name), "U8", {static_cast<int64_t>(file.content.size())}});
  }
  for (const MappedTensor& tensor : sources.tensors()) {
    const auto dtype = SafetensorsSpelling(DTypeOfFormat(tensor.format));
    declarations.push_back(
        {tensor.packed.name(), std::string(dtype), tensor.packed.shape(tensor.format)});
  }
  return declarations;
}

// Appends pieces of one tensor and sets its checksum when it ends.
class TensorWriter {
 public:
  TensorWriter(SafetensorsWriter& writer, std::string name)
      : writer_(writer), name_(std::move(name)) {}
  void Append(std::span<const std::byte> bytes) {
    checksum_.Update(bytes);
    writer_.Append(name_, bytes);
  }
  void Finish() { writer_.SetMetadata(Key(kChecksumPrefix, name_), checksum_.Hex()); }

 private:
  SafetensorsWriter& writer_;
  std::string name_;
  Checksum checksum_;
};

void WriteTensors(const Context& context, const ShardedCheckpoint& checkpoint,
                  const SourceMap& sources, const ConvertOptions& options,
                  SafetensorsWriter& writer) {
  uint64_t done = 0;
  for (const MappedTensor& tensor : sources.tensors()) {
    TensorWriter output(writer, tensor.packed.name());
    const auto sink = [&](std::span<const std::byte> bytes) {
      output.Append(bytes);
      done += bytes.size();
      if (options.on_progress) options.on_progress(done, writer.file_bytes());
    };
    for (const SourceMatrix& matrix : tensor.matrices) {
      if (tensor.packed.storage == Storage::kPanels) {
        PackSource(context, checkpoint, tensor.packed.layout_as(tensor.format), matrix, sink);
      } else {
        CopySource(checkpoint, matrix, sink);
      }
    }
    output.Finish();
  }
}

void ReportUnknownFields(const Context& context, const std::string& file,
                         const ConvertReport& report, const ConvertOptions& options) {
  if (report.unknown_fields.empty()) return;
  std::string list;
  for (const std::string& field : report.unknown_fields) {
    list += Concat(list.empty() ? "" : ", ", field);
  }
  OPST_CHECK_IO(!options.is_strict, file,
                Concat("with --strict every field must be known to the family ", report.family),
                list);
  context.log().Write(LogLevel::kWarning, "[", file, "] fields that no rule of the family ",
                      report.family, " names are ignored: ", list);
}

}  // namespace

ConvertReport Convert(const Context& context, const std::string& source, const std::string& output,
                      const ConvertOptions& options) {
  const ShardedCheckpoint checkpoint = ShardedCheckpoint::Open(source);
  const std::string config_path = JoinPath(checkpoint.folder(), "config.json");
  const std::string config_json = ReadWholeFile(config_path, 1 << 20);
  ConvertReport report;
  const ModelConfig config = ReadModelConfig(config_json, config_path, &report.unknown_fields);
  report.family = config.family;
  ReportUnknownFields(context, config_path, report, options);
  const SourceMap sources(checkpoint, FindFamily(config.family, config_path), config);
  report.num_source_tensors = static_cast<int64_t>(checkpoint.tensors().size());
  report.source_bytes = checkpoint.total_bytes();
  report.unused_tensors = sources.unused();

  const std::vector<TextFile> files = ReadTextFiles(checkpoint.folder());
  SafetensorsWriter writer(
      output, Declarations(sources, files), Metadata(config_json, config, sources, files),
      {.if_exists = options.overwrites ? IfExists::kReplace : IfExists::kRefuse});
  for (const TextFile& file : files) {
    TensorWriter text(writer, Concat(kFilePrefix, file.name));
    text.Append(std::as_bytes(std::span(file.content)));
    text.Finish();
  }
  WriteTensors(context, checkpoint, sources, options, writer);
  writer.Finish();
  report.output_bytes = writer.file_bytes();
  // Header, texts and padding are in the total but in no tensor.
  if (options.on_progress) options.on_progress(report.output_bytes, report.output_bytes);
  return report;
}

}  // namespace opst
