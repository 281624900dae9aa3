// A dense checkpoint seen as a MoE checkpoint.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/moe_of_dense.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "io/json_tree.h"
#include "io/safetensors_dtype.h"
#include "kernels/rows.h"
#include "model/config_reader.h"
#include "model/family.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "convert";

// {layer}, {expert} and {role} of the three families that come out.
std::string ExpertName(std::string_view model_type, int64_t layer, int64_t expert,
                       std::string_view role) {
  if (model_type == "mixtral") {
    const std::string_view letter = role == "gate" ? "w1" : role == "up" ? "w3" : "w2";
    return Concat("model.layers.", layer, ".block_sparse_moe.experts.", expert, ".", letter,
                  ".weight");
  }
  if (model_type == "llama_moe") {
    return Concat("model.layers.", layer, ".mlp.calculator.experts.weight_", role, ".", expert);
  }
  return Concat("model.layers.", layer, ".mlp.experts.", expert, ".", role, "_proj.weight");
}

std::string RouterName(std::string_view model_type, int64_t layer) {
  if (model_type == "mixtral") {
    return Concat("model.layers.", layer, ".block_sparse_moe.gate.weight");
  }
  if (model_type == "llama_moe") {
    return Concat("model.layers.", layer, ".mlp.gate.gate_network.weight");
  }
  return Concat("model.layers.", layer, ".mlp.gate.weight");
}

void AddDefault(nlohmann::ordered_json& config, const std::string& key,
                const nlohmann::ordered_json& value) {
  if (!config.contains(key) || config[key].is_null()) config[key] = value;
}

bool IsDenseFfn(const std::string& name) {
  for (const std::string_view role : {"gate", "up", "down"}) {
    if (name.ends_with(Concat(".mlp.", role, "_proj.weight"))) return true;
  }
  return false;
}

}  // namespace

MoeOfDense::MoeOfDense(std::unique_ptr<const ModelSource> dense, const MoeOfDenseOptions& options)
    : dense_(std::move(dense)), options_(options) {
  OPST_CHECK_ARG(options.num_experts >= 1 && options.num_experts <= kMaxExperts, kWhere,
                 Concat("experts of a dense model must be 1 to ", kMaxExperts),
                 options.num_experts);
  OPST_CHECK_ARG(options.top_k >= 1 && options.top_k <= options.num_experts, kWhere,
                 "k must be 1 to the number of experts", options.top_k, " of ",
                 options.num_experts);
  folder_ = dense_->folder();
  config_path_ = dense_->config_path();
  files_ = dense_->files();
  text_files_ = dense_->text_files();
  unknown_settings_ = dense_->unknown_settings();
  num_stored_tensors_ = dense_->num_stored_tensors();
  stored_bytes_ = dense_->stored_bytes();
  auto config = ReadJsonTree(dense_->config_json(), dense_->config_path());
  WriteConfig(config);
  config_json_ = config.dump(2);
  ConfigReader reader(config_json_, config_path_);
  const int64_t num_layers = reader.Integer("num_hidden_layers", 1, 4096);
  for (const SourceTensor& tensor : dense_->tensors()) {
    if (!IsDenseFfn(tensor.name())) AddCopy(tensor.name(), tensor);
  }
  for (int64_t layer = 0; layer < num_layers; ++layer) AddLayer(layer);
  IndexNames();
}

void MoeOfDense::WriteConfig(nlohmann::ordered_json& config) {
  ConfigReader reader(dense_->config_json(), config_path_);
  const std::string family = reader.String("model_type");
  const bool splits = options_.kind == MoeOfDenseOptions::Kind::kSplit;
  OPST_CHECK_IO(family == "llama" || (family == "qwen3" && !splits), config_path_,
                splits ? "only a llama model can be split into experts"
                       : "only a llama or qwen3 model can be upcycled",
                family);
  std::vector<std::string> unread;
  const ModelConfig dense = ReadModelConfig(dense_->config_json(), config_path_, &unread);
  // The families that come out have no place for these.
  reader.Require("attention_bias", {"false"});
  reader.Require("mlp_bias", {"false"});
  reader.Require("use_sliding_window", {"false"});
  for (const std::string_view key :
       {"attention_bias", "mlp_bias", "layer_types", "architectures", "pretraining_tp"}) {
    config.erase(std::string(key));
  }
  // What says nothing about the dense model must not say something about the other one.
  for (const std::string& key : unread) {
    if (config.erase(key) > 0) unknown_settings_.push_back(key);
  }
  // Defaults that other families, or other readers of them, do not share.
  AddDefault(config, "rope_theta", dense.attention.rope.theta);
  AddDefault(config, "max_position_embeddings", dense.max_positions);
  AddDefault(config, "num_key_value_heads", dense.attention.num_kv_heads);
  AddDefault(config, "tie_word_embeddings", dense.ties_embeddings);
  if (family == "qwen3") AddDefault(config, "head_dim", dense.attention.head_dim);
  if (splits) {
    OPST_CHECK_IO(dense.dense_ffn % options_.num_experts == 0, config_path_,
                  Concat(options_.num_experts, " experts must divide intermediate_size"),
                  dense.dense_ffn);
    model_type_ = "llama_moe";
    config["num_experts"] = options_.num_experts;
    config["num_selects"] = options_.top_k;
    config["gate_network"] = "linear";
    config["score_scale_factor"] = options_.top_k;  // times 1/k each: weights of 1
  } else {
    model_type_ = family == "llama" ? "mixtral" : "qwen3_moe";
    config[family == "llama" ? "num_local_experts" : "num_experts"] = options_.num_experts;
    config["num_experts_per_tok"] = options_.top_k;
    if (family == "qwen3") {
      config["moe_intermediate_size"] = dense.dense_ffn;
      config["norm_topk_prob"] = true;
    }
  }
  config["model_type"] = model_type_;
}

const SourceTensor& MoeOfDense::Dense(int64_t layer, std::string_view role) const {
  const std::string name = Concat("model.layers.", layer, ".mlp.", role, "_proj.weight");
  const SourceTensor* tensor = dense_->Find(name);
  OPST_CHECK_IO(tensor != nullptr && tensor->tensor->shape.size() == 2, folder_,
                Concat("the checkpoint must have the matrix ", name),
                tensor == nullptr ? "none of that name" : tensor->tensor->Describe());
  const auto dtype = DTypeFromSafetensors(tensor->tensor->dtype);
  OPST_CHECK_IO(dtype && IsModelFloat(*dtype), folder_, "weights must be F32, BF16 or F16",
                tensor->tensor->Describe());
  const int64_t ffn = tensor->tensor->shape[role == "down" ? 1 : 0];
  OPST_CHECK_IO(
      options_.kind == MoeOfDenseOptions::Kind::kUpcycle || ffn % options_.num_experts == 0,
      folder_, Concat(options_.num_experts, " experts must divide the FFN"),
      tensor->tensor->Describe());
  return *tensor;
}

void MoeOfDense::AddLayer(int64_t layer) {
  const SourceTensor& gate = Dense(layer, "gate");
  const SourceTensor& up = Dense(layer, "up");
  const SourceTensor& down = Dense(layer, "down");
  AddRouter(layer, gate);
  for (int64_t expert = 0; expert < options_.num_experts; ++expert) {
    const auto name = [&](std::string_view role) {
      return ExpertName(model_type_, layer, expert, role);
    };
    if (options_.kind == MoeOfDenseOptions::Kind::kUpcycle) {
      AddCopy(name("gate"), gate);
      AddCopy(name("up"), up);
      AddCopy(name("down"), down);
    } else {
      AddRows(name("gate"), gate, expert);
      AddRows(name("up"), up, expert);
      AddColumns(name("down"), down, expert);
    }
  }
}

void MoeOfDense::AddRouter(int64_t layer, const SourceTensor& like) {
  AddPlain(RouterName(model_type_, layer), "F32", {options_.num_experts, like.tensor->shape[1]},
           [](uint64_t, uint64_t count) { return SourceBytes::Own(AlignedBuffer(count)); });
}

void MoeOfDense::AddCopy(std::string name, const SourceTensor& dense) {
  AddPlain(
      std::move(name), dense.tensor->dtype, dense.tensor->shape,
      [this, &dense](uint64_t begin, uint64_t count) { return dense_->Read(dense, begin, count); });
}

void MoeOfDense::AddRows(std::string name, const SourceTensor& dense, int64_t expert) {
  const int64_t rows = dense.tensor->shape[0] / options_.num_experts;
  const uint64_t expert_bytes =
      dense.tensor->num_bytes / static_cast<uint64_t>(options_.num_experts);
  AddPlain(
      std::move(name), dense.tensor->dtype, {rows, dense.tensor->shape[1]},
      [this, &dense, first = static_cast<uint64_t>(expert) * expert_bytes](
          uint64_t begin, uint64_t count) { return dense_->Read(dense, first + begin, count); });
}

void MoeOfDense::AddColumns(std::string name, const SourceTensor& dense, int64_t expert) {
  const DType dtype = *DTypeFromSafetensors(dense.tensor->dtype);
  const int64_t all = dense.tensor->shape[1];
  const int64_t columns = all / options_.num_experts;
  const auto read = [this, &dense, dtype, all, columns, expert](int64_t first, int64_t count,
                                                                float* out) {
    const auto row_bytes = static_cast<uint64_t>(all) * ByteSize(dtype);
    const SourceBytes rows = dense_->Read(dense, static_cast<uint64_t>(first) * row_bytes,
                                          static_cast<uint64_t>(count) * row_bytes);
    for (int64_t row = 0; row < count; ++row) {
      const auto at = static_cast<size_t>(row * all + expert * columns) * ByteSize(dtype);
      ConvertToFloat(dtype, rows.bytes().data() + at, static_cast<size_t>(columns),
                     out + row * columns);
    }
  };
  AddExpanded(std::move(name), dtype, {dense.tensor->shape[0], columns}, read);
}

}  // namespace opst
