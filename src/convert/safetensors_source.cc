// Finds plain and quantised tensors of a Hugging Face folder and gives both their plain names.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/safetensors_source.h"

#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/check.h"
#include "convert/quantised_rows.h"
#include "io/json_tree.h"
#include "io/safetensors_dtype.h"
#include "model/config_reader.h"

namespace opst {
namespace {

constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr uint64_t kMaxTextFileBytes = uint64_t{128} << 20;
constexpr std::string_view kQuantisation = "quantization_config";
constexpr std::string_view kFloats = "F32 BF16 F16";
// Files of the source that travel inside the packed one.
constexpr std::array<std::string_view, 6> kTextFiles = {
    "tokenizer.json",      "tokenizer_config.json", "generation_config.json",
    "chat_template.jinja", "chat_template.json",    "special_tokens_map.json"};

std::vector<TextFile> ReadTextFiles(const std::string& folder) {
  std::vector<TextFile> files;
  for (const std::string_view name : kTextFiles) {
    const std::string path = JoinPath(folder, name);
    if (KindOf(path) == PathKind::kMissing) {
      std::error_code error;
      OPST_CHECK_IO(!std::filesystem::is_symlink(path, error), path,
                    "a text file of the model must be there", "a symbolic link to nothing");
      continue;
    }
    std::string content = ReadWholeFile(path, kMaxTextFileBytes);
    if (!content.empty()) files.push_back({std::string(name), std::move(content)});
  }
  return files;
}

// `name` without `suffix`; none when it does not end so.
std::optional<std::string> Stem(const std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  return name.substr(0, name.size() - suffix.size());
}

constexpr int64_t kMaxGroup = int64_t{1} << 24;

// Inputs that share a scale; -1 = all of them.
int64_t ReadGroupSize(ConfigReader& quantisation, std::string_view key) {
  const int64_t size = quantisation.Integer(key, -1, kMaxGroup);
  if (size == 0) quantisation.Refuse(key, "must be -1 or at least 1");
  return size;
}

}  // namespace

SafetensorsSource::SafetensorsSource(const std::string& path, DType expanded)
    : checkpoint_(ShardedCheckpoint::Open(path)) {
  folder_ = checkpoint_.folder();
  config_path_ = JoinPath(folder_, "config.json");
  config_json_ = ReadWholeFile(config_path_, kMaxConfigBytes);
  text_files_ = ReadTextFiles(folder_);
  files_ = {config_path_};
  for (const std::string& shard : checkpoint_.files().shards) {
    files_.push_back(JoinPath(folder_, shard));
  }
  if (!checkpoint_.files().index.empty()) {
    files_.push_back(JoinPath(folder_, checkpoint_.files().index));
  }
  for (const TextFile& file : text_files_) files_.push_back(JoinPath(folder_, file.name));
  num_stored_tensors_ = static_cast<int64_t>(checkpoint_.tensors().size());
  stored_bytes_ = checkpoint_.total_bytes();
  ReadConfig();
  AddTensors(expanded);
  IndexNames();
}

void SafetensorsSource::ReadConfig() {
  ConfigReader config(config_json_, config_path_);
  std::optional<ConfigReader> quantisation = config.Object(kQuantisation);
  if (!quantisation) return;
  const std::string method = quantisation->String("quant_method");
  if (method == "fp8") {
    const auto block = quantisation->Integers("weight_block_size", 1, 1 << 20);
    if (block.size() != 2) {
      quantisation->Refuse("weight_block_size", "must be two numbers (scales per block)");
    }
    quantisation->Require("fmt", {"\"e4m3\""});
    quantisation_.block_rows = block[0];
    quantisation_.block_columns = block[1];
  } else if (method == "gptq") {
    quantisation->Require("bits", {"4"});
    // The first version of the format stores zero points lowered by one.
    quantisation->Require("checkpoint_format", {"\"gptq\"", "\"gptq_v2\""});
    const bool is_first = quantisation->String("checkpoint_format", "gptq") == "gptq";
    quantisation_.zero_offset = is_first ? 1 : 0;
    quantisation_.group_size = ReadGroupSize(*quantisation, "group_size");
    quantisation_.is_ordered = !quantisation->Bool("desc_act", false);
  } else if (method == "awq") {
    quantisation->Require("bits", {"4"});
    quantisation->Require("w_bit", {"4"});
    quantisation->Require("version", {"\"gemm\"", "\"GEMM\""});
    // AutoAWQ's own files have the second spelling.
    const bool is_plain = quantisation->Integer("q_group_size", -1, kMaxGroup, 0) == 0;
    quantisation_.group_size =
        ReadGroupSize(*quantisation, is_plain ? "group_size" : "q_group_size");
  } else if (method != "mxfp4") {
    quantisation->Refuse("quant_method", "must be fp8, mxfp4, gptq or awq");
  }
  quantisation_.method = method;
  // The source undoes it, so to the family the model is a plain one.
  auto plain = ReadJsonTree(config_json_, config_path_);
  plain.erase(std::string(kQuantisation));
  config_json_ = plain.dump(2);
}

const SourceTensor& SafetensorsSource::Part(const std::string& name, std::string_view dtypes,
                                            const std::vector<int64_t>& shape) {
  const SourceTensor* part = checkpoint_.Find(name);
  OPST_CHECK_IO(part != nullptr, folder_,
                Concat("a quantised checkpoint must have the tensor ", name), "none of that name");
  OPST_CHECK_IO(dtypes.find(part->tensor->dtype) != std::string_view::npos, folder_,
                Concat("this part of a quantised tensor must be ", dtypes),
                part->tensor->Describe());
  OPST_CHECK_IO(part->tensor->shape == shape, folder_,
                Concat("this part of a quantised tensor must be ", ShapeText(shape)),
                part->tensor->Describe());
  parts_.insert(part->name());
  return *part;
}

bool SafetensorsSource::AddFp8(const SourceTensor& source, DType expanded) {
  if (source.tensor->dtype != "F8_E4M3") return false;
  const std::vector<int64_t>& shape = source.tensor->shape;
  OPST_CHECK_IO(shape.size() >= 2 && source.tensor->num_bytes > 0, folder_,
                "fp8 weights must be matrices", source.tensor->Describe());
  const int64_t columns = shape.back();
  const int64_t rows = shape[shape.size() - 2];
  const int64_t block_rows = quantisation_.block_rows;
  const int64_t block_columns = quantisation_.block_columns;
  std::vector<int64_t> scales(shape.begin(), shape.end() - 2);
  scales.push_back((rows + block_rows - 1) / block_rows);
  scales.push_back((columns + block_columns - 1) / block_columns);
  const SourceTensor& scale = Part(Concat(source.name(), "_scale_inv"), kFloats, scales);
  parts_.insert(source.name());
  const Fp8Matrix matrix{&checkpoint_, &source, &scale, rows, columns, block_rows, block_columns};
  AddExpanded(source.name(), expanded, shape,
              [matrix](int64_t first, int64_t n, float* out) { matrix.Rows(first, n, out); });
  return true;
}

bool SafetensorsSource::AddMxfp4(const SourceTensor& source, DType expanded) {
  const std::optional<std::string> stem = Stem(source.name(), "_blocks");
  if (!stem) return false;
  const std::vector<int64_t>& shape = source.tensor->shape;
  OPST_CHECK_IO(shape.size() == 4 && shape[3] == 16 && source.tensor->num_bytes > 0 &&
                    source.tensor->dtype == "U8",
                folder_, "mxfp4 blocks must be U8 [experts,out,in/32,16]",
                source.tensor->Describe());
  const SourceTensor& scale = Part(Concat(*stem, "_scales"), "U8", {shape[0], shape[1], shape[2]});
  parts_.insert(source.name());
  const Mxfp4Matrix matrix{&checkpoint_, &source, &scale, shape[1], shape[2]};
  AddExpanded(
      *stem, expanded, {shape[0], 32 * shape[2], shape[1]},
      [matrix](int64_t first, int64_t n, float* out) { matrix.Rows(first, n, out); }, true);
  return true;
}

bool SafetensorsSource::AddInt4(const SourceTensor& source, DType expanded) {
  const std::optional<std::string> stem = Stem(source.name(), ".qweight");
  if (!stem) return false;
  const bool is_awq = quantisation_.method == "awq";
  const std::vector<int64_t>& shape = source.tensor->shape;
  OPST_CHECK_IO(shape.size() == 2 && source.tensor->dtype == "I32" && source.tensor->num_bytes > 0,
                folder_, "qweight must be an I32 matrix", source.tensor->Describe());
  const int64_t in = is_awq ? shape[0] : 8 * shape[0];
  const int64_t out = is_awq ? 8 * shape[1] : shape[1];
  OPST_CHECK_IO(out % 8 == 0, folder_, "outputs of 4-bit weights must be a multiple of 8",
                source.tensor->Describe());
  // The last group may be shorter.
  const int64_t group_size = quantisation_.group_size < 0 ? in : quantisation_.group_size;
  const int64_t groups = (in + group_size - 1) / group_size;
  const SourceTensor* scales = checkpoint_.Find(Concat(*stem, ".scales"));
  OPST_CHECK_IO(
      scales == nullptr || scales->tensor->shape.empty() || scales->tensor->shape[0] == groups,
      folder_,
      Concat("scales must have a row for each group of group_size (", quantisation_.group_size,
             ") inputs, ", groups),
      scales->tensor->Describe(), " for ", source.tensor->Describe());
  const SourceTensor& scale = Part(Concat(*stem, ".scales"), kFloats, {groups, out});
  const SourceTensor& zeros = Part(Concat(*stem, ".qzeros"), "I32", {groups, out / 8});
  parts_.insert(source.name());
  const std::string name = Concat(*stem, ".weight");
  if (is_awq) {
    const AwqMatrix matrix{&checkpoint_, &source, &zeros, &scale, out, in, group_size};
    AddExpanded(name, expanded, {out, in},
                [matrix](int64_t first, int64_t n, float* rows) { matrix.Rows(first, n, rows); });
    return true;
  }
  const std::string order = Concat(*stem, ".g_idx");
  const SourceTensor* group =
      checkpoint_.Find(order) == nullptr ? nullptr : &Part(order, "I32", {in});
  OPST_CHECK_IO(group != nullptr || quantisation_.is_ordered, folder_,
                Concat("with desc_act the checkpoint must have the tensor ", order),
                "none of that name");
  const GptqMatrix matrix{&checkpoint_, &source, &zeros, &scale,     group,
                          out,          in,      groups, group_size, quantisation_.zero_offset};
  AddExpanded(name, expanded, {out, in},
              [matrix](int64_t first, int64_t n, float* rows) { matrix.Rows(first, n, rows); });
  return true;
}

void SafetensorsSource::AddTensors(DType expanded) {
  const std::string& method = quantisation_.method;
  for (const SourceTensor& source : checkpoint_.tensors()) {
    if (method == "fp8") AddFp8(source, expanded);
    if (method == "mxfp4") AddMxfp4(source, expanded);
    if (method == "gptq" || method == "awq") AddInt4(source, expanded);
  }
  for (const SourceTensor& source : checkpoint_.tensors()) {
    if (parts_.contains(source.name())) continue;
    AddPlain(source.name(), source.tensor->dtype, source.tensor->shape,
             [this, &source](uint64_t begin, uint64_t count) {
               return checkpoint_.Read(source, begin, count);
             });
  }
}

}  // namespace opst
