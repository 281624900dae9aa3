// Derives the list of packed tensors from a recipe.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/packed_tensors.h"

#include "base/check.h"

namespace opst {
namespace {

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kEmbedding:
      return "embedding";
    case Role::kHead:
      return "head";
    case Role::kFinalNorm:
      return "final_norm";
    case Role::kAttentionNorm:
      return "attention.norm";
    case Role::kQkv:
      return "attention.qkv";
    case Role::kQueryNorm:
      return "attention.query_norm";
    case Role::kKeyNorm:
      return "attention.key_norm";
    case Role::kAttentionOut:
      return "attention.out";
    case Role::kFfnNorm:
      return "ffn_norm";
    case Role::kRouter:
      return "moe.router";
    case Role::kGateUp:
      return "moe.gate_up";
    case Role::kDown:
      return "moe.down";
    case Role::kDenseGateUp:
      return "dense.gate_up";
    case Role::kDenseDown:
      return "dense.down";
  }
  return "?";
}

PanelLayout Matrix(int64_t out, int64_t in, PanelOrder order = PanelOrder::kPlain) {
  return {WeightFormat::kF32, order, out, in};
}

PackedTensor Vector(Role role, int64_t layer, int64_t length) {
  return {role, layer, Storage::kVector, 1, Matrix(1, length)};
}

PackedTensor Panels(Role role, int64_t layer, PanelLayout layout, int64_t num_matrices = 1) {
  return {role, layer, Storage::kPanels, num_matrices, layout};
}

void AddAttention(const ModelConfig& config, int64_t layer, std::vector<PackedTensor>& tensors) {
  const AttentionRecipe& attention = config.attention;
  const int64_t qkv = attention.query_width() + 2 * attention.kv_width();
  tensors.push_back(Vector(Role::kAttentionNorm, layer, config.hidden()));
  tensors.push_back(Panels(Role::kQkv, layer, Matrix(qkv, config.hidden())));
  if (attention.qk_norm != AttentionRecipe::QkNorm::kNone) {
    const bool is_per_head = attention.qk_norm == AttentionRecipe::QkNorm::kPerHead;
    const int64_t query = is_per_head ? attention.head_dim : attention.query_width();
    const int64_t key = is_per_head ? attention.head_dim : attention.kv_width();
    tensors.push_back(Vector(Role::kQueryNorm, layer, query));
    tensors.push_back(Vector(Role::kKeyNorm, layer, key));
  }
  tensors.push_back(
      Panels(Role::kAttentionOut, layer, Matrix(config.hidden(), attention.query_width())));
}

void AddFfn(const ModelConfig& config, int64_t layer, std::vector<PackedTensor>& tensors) {
  const int64_t hidden = config.hidden();
  tensors.push_back(Vector(Role::kFfnNorm, layer, hidden));
  if (!config.is_moe[static_cast<size_t>(layer)]) {
    const int64_t ffn = config.dense_ffn;
    tensors.push_back(
        Panels(Role::kDenseGateUp, layer, Matrix(2 * ffn, hidden, PanelOrder::kGateUp)));
    tensors.push_back(Panels(Role::kDenseDown, layer, Matrix(hidden, ffn)));
    return;
  }
  const int64_t ffn = config.ffn.ffn;
  const int64_t experts = config.routing.num_experts;
  tensors.push_back(Panels(Role::kRouter, layer, Matrix(experts, hidden)));
  tensors.push_back(
      Panels(Role::kGateUp, layer, Matrix(2 * ffn, hidden, PanelOrder::kGateUp), experts));
  tensors.push_back(Panels(Role::kDown, layer, Matrix(hidden, ffn), experts));
}

}  // namespace

std::string PackedTensor::name() const {
  return layer < 0 ? std::string(RoleName(role)) : Concat("layers.", layer, ".", RoleName(role));
}

PanelLayout PackedTensor::layout_as(WeightFormat format) const {
  PanelLayout result = layout;
  result.format = format;
  return result;
}

std::vector<int64_t> PackedTensor::shape(WeightFormat format) const {
  if (storage == Storage::kVector) return {layout.in};
  if (storage == Storage::kRows) return {layout.out, layout.in};
  const int64_t panels = layout.num_panels();
  if (format == WeightFormat::kBf16) {
    return {num_matrices, panels, (layout.in + 1) / 2, PanelLayout::kWidth, 2};
  }
  return {num_matrices, panels, layout.in, PanelLayout::kWidth};
}

uint64_t PackedTensor::num_bytes(WeightFormat format) const {
  uint64_t elements = 1;
  for (const int64_t extent : shape(format)) elements *= static_cast<uint64_t>(extent);
  return elements * ByteSize(DTypeOfFormat(format));
}

std::vector<PackedTensor> PackedTensors(const ModelConfig& config) {
  std::vector<PackedTensor> tensors;
  const PanelLayout vocabulary = Matrix(config.vocab_size, config.hidden());
  if (!config.ties_embeddings) {
    tensors.push_back({Role::kEmbedding, -1, Storage::kRows, 1, vocabulary});
  }
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    AddAttention(config, layer, tensors);
    AddFfn(config, layer, tensors);
  }
  tensors.push_back(Vector(Role::kFinalNorm, -1, config.hidden()));
  tensors.push_back(Panels(Role::kHead, -1, vocabulary));
  return tensors;
}

}  // namespace opst
