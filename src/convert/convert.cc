// The conversion as a whole: read the config, map the sources, write tensor after tensor.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/convert.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "convert/matrix_packer.h"
#include "convert/open_source.h"
#include "convert/source_map.h"
#include "io/checksum.h"
#include "io/quote.h"
#include "io/safetensors_dtype.h"
#include "io/safetensors_writer.h"
#include "model/generation_config.h"
#include "opst/tokenizer.h"
#include "text/tokenizer_config.h"

namespace opst {
namespace {

std::string Key(std::string_view prefix, std::string_view name) { return Concat(prefix, name); }

// The source's shape of a vector that is a matrix of one row there; none for all others.
std::optional<std::string> RowShape(const MappedTensor& tensor) {
  if (tensor.packed.storage != Storage::kVector || tensor.matrices.size() != 1) return {};
  const std::vector<SourceRows>& parts = tensor.matrices.front().parts;
  const std::vector<int64_t>& shape = parts.front().tensor->tensor->shape;
  if (parts.size() != 1 || shape.size() != 2 || shape[0] != 1) return {};
  return ShapeText(shape);
}

std::map<std::string, std::string> Metadata(const std::string& config_json,
                                            const ModelConfig& config, const SourceMap& sources,
                                            const std::vector<TextFile>& files) {
  const std::string no_checksum(16, '0');  // replaced when the tensor is written
  std::map<std::string, std::string> metadata;
  metadata[std::string(kFormatKey)] = std::to_string(kPackedFormat);
  metadata[std::string(kHeaderChecksumKey)] = no_checksum;
  metadata[std::string(kConfigKey)] = config_json;
  metadata[std::string(kRecipeKey)] = config.ToJson();
  for (const MappedTensor& tensor : sources.tensors()) {
    metadata[Key(kSourcePrefix, tensor.packed.name())] = tensor.source_names();
    metadata[Key(kChecksumPrefix, tensor.packed.name())] = no_checksum;
    if (const auto shape = RowShape(tensor)) {
      metadata[Key(kSourceShapePrefix, tensor.packed.name())] = *shape;
    }
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
    const auto dtype = SafetensorsSpelling(StoredDType(tensor.type.format));
    declarations.push_back(
        {tensor.packed.name(), std::string(dtype), tensor.packed.shape(tensor.type)});
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

// Returns what was rounded.
std::vector<RoundedTensor> WriteTensors(const Context& context, const ModelSource& source,
                                        const SourceMap& sources, const ConvertOptions& options,
                                        SafetensorsWriter& writer) {
  std::vector<RoundedTensor> rounded;
  uint64_t done = 0;
  for (const MappedTensor& tensor : sources.tensors()) {
    TensorWriter output(writer, tensor.packed.name());
    const auto sink = [&](std::span<const std::byte> bytes) {
      output.Append(bytes);
      done += bytes.size();
      if (options.on_progress) options.on_progress(done, writer.file_bytes());
    };
    RoundingSums sums;
    for (const SourceMatrix& matrix : tensor.matrices) {
      if (tensor.packed.storage == Storage::kPanels) {
        sums.Add(PackSource(context, source, tensor.packed.layout_as(tensor.type), matrix, sink));
      } else {
        CopySource(source, matrix, sink);
      }
    }
    output.Finish();
    if (!IsInteger(tensor.type.format)) continue;
    const double error = sums.squares > 0 ? std::sqrt(sums.error_squares / sums.squares) : 0;
    rounded.push_back({tensor.packed.name(), error});
  }
  return rounded;
}

// All other metadata must be final.
void WriteHeaderChecksum(const std::vector<SafetensorsDeclaration>& declarations,
                         SafetensorsWriter& writer) {
  std::vector<HeaderEntry> entries;
  for (const SafetensorsDeclaration& tensor : declarations) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  writer.SetMetadata(std::string(kHeaderChecksumKey),
                     HeaderChecksum(writer.metadata(), std::move(entries)));
}

void ReportUnknownFields(const Context& context, const std::string& file,
                         const ConvertReport& report, const ConvertOptions& options) {
  if (report.unknown_fields.empty()) return;
  std::string list;
  for (const std::string& field : report.unknown_fields) {
    list += Concat(list.empty() ? "" : ", ", Quote(field));
  }
  OPST_CHECK_IO(!options.is_strict, file,
                Concat("with --strict every field must be known to the family ", report.family),
                list);
  context.log().Write(LogLevel::kWarning, "[", file, "] fields that no rule of the family ",
                      report.family, " names are ignored: ", list);
}

// Leave to replace an older output is no leave to replace what is being converted.
void CheckOutputIsNoSource(const std::string& source, const std::string& output) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(output, error) || fs::path(output).extension() == ".opst") return;
  const fs::path folder = fs::is_directory(source, error)
                              ? fs::path(source)
                              : fs::absolute(source, error).parent_path();
  for (const fs::path& path : {fs::absolute(output, error), fs::weakly_canonical(output, error)}) {
    OPST_CHECK_IO(!fs::equivalent(path.parent_path(), folder, error), output,
                  "output must not replace a file of the source folder",
                  Quote(path.filename().string()));
  }
}

// The same for files that are read under another name: a folder may hold links to them.
void CheckOutputIsNoInput(const ModelSource& source, const std::string& output) {
  std::error_code error;
  for (const std::string& file : source.files()) {
    OPST_CHECK_IO(!std::filesystem::equivalent(output, file, error), output,
                  "output must not replace a file that is read", file);
  }
}

// What no later step could repair: a packed file with such a setting would not generate.
void CheckGenerationConfig(const std::string& folder, const std::vector<TextFile>& files,
                           int64_t vocab_size) {
  for (const TextFile& file : files) {
    if (file.name != "generation_config.json") continue;
    (void)GenerationEndTokens(file.content, JoinPath(folder, file.name), vocab_size);
  }
}

// A model without a usable tokenizer still serves token ids, so this is no error here.
void WarnOfUnusableTokenizer(const Context& context, const std::string& source,
                             const std::vector<TextFile>& files) {
  for (const TextFile& file : files) {
    try {
      if (file.name == "tokenizer.json") (void)Tokenizer::FromJson(file.content, file.name);
      if (file.name == "tokenizer_config.json" || file.name == "special_tokens_map.json") {
        (void)text::TokenizerConfig::FromJson(file.content, file.name);
      }
    } catch (const Error& error) {
      context.log().Write(
          LogLevel::kWarning, "[", source,
          "] the model will give no text, its tokenizer is refused: ", error.what());
    }
  }
}

}  // namespace

ConvertReport Convert(const Context& context, const std::string& path, const std::string& output,
                      const ConvertOptions& options) {
  return NamingOutOfMemory(path, [&] {
    CheckOutputIsNoSource(path, output);
    const std::unique_ptr<const ModelSource> source = OpenSource(path, options);
    CheckOutputIsNoInput(*source, output);
    ConvertReport report;
    const ModelConfig config =
        ReadModelConfig(source->config_json(), source->config_path(), &report.unknown_fields);
    for (const std::string& name : source->unknown_settings())
      report.unknown_fields.push_back(name);
    report.family = config.family;
    ReportUnknownFields(context, source->config_path(), report, options);
    const SourceMap sources(*source, FindFamily(config.family, source->config_path()), config,
                            options);
    report.num_source_tensors = source->num_stored_tensors();
    report.source_bytes = source->stored_bytes();
    report.unused_tensors = sources.unused();

    const std::vector<TextFile>& files = source->text_files();
    CheckGenerationConfig(source->folder(), files, config.vocab_size);
    WarnOfUnusableTokenizer(context, source->folder(), files);
    const std::vector<SafetensorsDeclaration> declarations = Declarations(sources, files);
    SafetensorsWriter writer(
        output, declarations, Metadata(source->config_json(), config, sources, files),
        {.if_exists = options.overwrites ? IfExists::kReplace : IfExists::kRefuse});
    for (const TextFile& file : files) {
      TensorWriter text(writer, Concat(kFilePrefix, file.name));
      text.Append(std::as_bytes(std::span(file.content)));
      text.Finish();
    }
    report.rounded = WriteTensors(context, *source, sources, options, writer);
    WriteHeaderChecksum(declarations, writer);
    writer.Finish();
    report.output_bytes = writer.file_bytes();
    // Header, texts and padding are in the total but in no tensor.
    if (options.on_progress) options.on_progress(report.output_bytes, report.output_bytes);
    return report;
  });
}

}  // namespace opst
