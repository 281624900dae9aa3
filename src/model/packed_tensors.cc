// Derives the list of packed tensors from a recipe.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/packed_tensors.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "io/checksum.h"
#include "io/safetensors_dtype.h"

namespace opst {
namespace {

constexpr std::pair<Role, std::string_view> kRoleNames[] = {
    {Role::kEmbedding, "embedding"},
    {Role::kAttentionNorm, "attention.norm"},
    {Role::kAttentionNormBias, "attention.norm_bias"},
    {Role::kQkv, "attention.qkv"},
    {Role::kQkvBias, "attention.qkv_bias"},
    {Role::kQueryNorm, "attention.query_norm"},
    {Role::kKeyNorm, "attention.key_norm"},
    {Role::kSinks, "attention.sinks"},
    {Role::kQueryDown, "attention.query_down"},
    {Role::kQueryDownNorm, "attention.query_down_norm"},
    {Role::kQueryUp, "attention.query_up"},
    {Role::kKvDown, "attention.kv_down"},
    {Role::kKvDownNorm, "attention.kv_down_norm"},
    {Role::kKeyUp, "attention.key_up"},
    {Role::kValueUp, "attention.value_up"},
    {Role::kAttentionOut, "attention.out"},
    {Role::kAttentionOutBias, "attention.out_bias"},
    {Role::kFfnNorm, "ffn_norm"},
    {Role::kFfnNormBias, "ffn_norm_bias"},
    {Role::kRouterHidden, "moe.router_hidden"},
    {Role::kRouter, "moe.router"},
    {Role::kRouterBias, "moe.router_bias"},
    {Role::kSelectionBias, "moe.selection_bias"},
    {Role::kGateUp, "moe.gate_up"},
    {Role::kGateUpBias, "moe.gate_up_bias"},
    {Role::kDown, "moe.down"},
    {Role::kDownBias, "moe.down_bias"},
    {Role::kSharedGate, "moe.shared_gate"},
    {Role::kSharedGateUp, "moe.shared_gate_up"},
    {Role::kSharedDown, "moe.shared_down"},
    {Role::kDenseGateUp, "dense.gate_up"},
    {Role::kDenseDown, "dense.down"},
    {Role::kFinalNorm, "final_norm"},
    {Role::kFinalNormBias, "final_norm_bias"},
    {Role::kHead, "head"},
    {Role::kHeadBias, "head_bias"},
};

std::string_view RoleName(Role role) {
  for (const auto& [known, name] : kRoleNames) {
    if (known == role) return name;
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

void AddNorm(const ModelConfig& config, Role weight, Role bias, int64_t layer,
             std::vector<PackedTensor>& tensors) {
  tensors.push_back(Vector(weight, layer, config.hidden()));
  if (config.norm_kind == NormKind::kLayer) {
    tensors.push_back(Vector(bias, layer, config.hidden()));
  }
}

void AddHeadProjections(const ModelConfig& config, int64_t layer,
                        std::vector<PackedTensor>& tensors) {
  const AttentionRecipe& attention = config.attention;
  const int64_t qkv = attention.query_width() + 2 * attention.kv_width();
  tensors.push_back(Panels(Role::kQkv, layer, Matrix(qkv, config.hidden())));
  if (attention.has_qkv_bias) tensors.push_back(Vector(Role::kQkvBias, layer, qkv));
  if (attention.qk_norm != AttentionRecipe::QkNorm::kNone) {
    const bool is_per_head = attention.qk_norm == AttentionRecipe::QkNorm::kPerHead;
    const int64_t query = is_per_head ? attention.head_dim : attention.query_width();
    const int64_t key = is_per_head ? attention.head_dim : attention.kv_width();
    tensors.push_back(Vector(Role::kQueryNorm, layer, query));
    tensors.push_back(Vector(Role::kKeyNorm, layer, key));
  }
  if (attention.has_sinks) tensors.push_back(Vector(Role::kSinks, layer, attention.num_heads));
}

void AddLatentProjections(const ModelConfig& config, int64_t layer,
                          std::vector<PackedTensor>& tensors) {
  const AttentionRecipe& attention = config.attention;
  const LatentRecipe& latent = attention.latent;
  const int64_t hidden = config.hidden();
  const int64_t heads = attention.num_heads;
  if (latent.query_rank > 0) {
    tensors.push_back(Panels(Role::kQueryDown, layer, Matrix(latent.query_rank, hidden)));
    tensors.push_back(Vector(Role::kQueryDownNorm, layer, latent.query_rank));
  }
  const int64_t query_in = latent.query_rank > 0 ? latent.query_rank : hidden;
  const int64_t kv_down = latent.kv_rank + attention.rope.dim;
  tensors.push_back(Panels(Role::kQueryUp, layer, Matrix(attention.query_width(), query_in)));
  tensors.push_back(Panels(Role::kKvDown, layer, Matrix(kv_down, hidden)));
  tensors.push_back(Vector(Role::kKvDownNorm, layer, latent.kv_rank));
  tensors.push_back(Panels(Role::kKeyUp, layer, Matrix(latent.kv_rank, latent.content_dim), heads));
  tensors.push_back(Panels(Role::kValueUp, layer, Matrix(latent.value_dim, latent.kv_rank), heads));
}

void AddAttention(const ModelConfig& config, int64_t layer, std::vector<PackedTensor>& tensors) {
  const AttentionRecipe& attention = config.attention;
  AddNorm(config, Role::kAttentionNorm, Role::kAttentionNormBias, layer, tensors);
  if (attention.is_latent()) {
    AddLatentProjections(config, layer, tensors);
  } else {
    AddHeadProjections(config, layer, tensors);
  }
  tensors.push_back(
      Panels(Role::kAttentionOut, layer, Matrix(config.hidden(), attention.output_width())));
  if (attention.has_output_bias) {
    tensors.push_back(Vector(Role::kAttentionOutBias, layer, config.hidden()));
  }
}

// gate_up and down of `num` gated feed-forward blocks of width `ffn`.
void AddGatedFfn(const ModelConfig& config, Role gate_up, Role down, int64_t layer, int64_t ffn,
                 int64_t num, std::vector<PackedTensor>& tensors) {
  const int64_t hidden = config.hidden();
  tensors.push_back(Panels(gate_up, layer, Matrix(2 * ffn, hidden, PanelOrder::kGateUp), num));
  tensors.push_back(Panels(down, layer, Matrix(hidden, ffn), num));
}

void AddRouter(const ModelConfig& config, int64_t layer, std::vector<PackedTensor>& tensors) {
  const RoutingRecipe& routing = config.routing;
  const int64_t experts = routing.num_experts;
  if (routing.hidden_dim > 0) {
    tensors.push_back(
        Panels(Role::kRouterHidden, layer, Matrix(routing.hidden_dim, config.hidden())));
  }
  const int64_t inputs = routing.hidden_dim > 0 ? routing.hidden_dim : config.hidden();
  tensors.push_back(Panels(Role::kRouter, layer, Matrix(experts, inputs)));
  if (routing.has_bias) tensors.push_back(Vector(Role::kRouterBias, layer, experts));
  if (routing.has_selection_bias) {
    tensors.push_back(Vector(Role::kSelectionBias, layer, experts));
  }
}

void AddFfn(const ModelConfig& config, int64_t layer, std::vector<PackedTensor>& tensors) {
  AddNorm(config, Role::kFfnNorm, Role::kFfnNormBias, layer, tensors);
  if (!config.is_moe[static_cast<size_t>(layer)]) {
    AddGatedFfn(config, Role::kDenseGateUp, Role::kDenseDown, layer, config.dense_ffn, 1, tensors);
    return;
  }
  const FfnRecipe& ffn = config.ffn;
  const int64_t experts = config.routing.num_experts;
  AddRouter(config, layer, tensors);
  AddGatedFfn(config, Role::kGateUp, Role::kDown, layer, ffn.ffn, experts, tensors);
  if (ffn.has_bias) {
    tensors.push_back(Vector(Role::kGateUpBias, layer, experts * 2 * ffn.ffn));
    tensors.push_back(Vector(Role::kDownBias, layer, experts * config.hidden()));
  }
  if (ffn.shared_ffn == 0) return;
  if (ffn.has_shared_gate) {
    tensors.push_back(Panels(Role::kSharedGate, layer, Matrix(1, config.hidden())));
  }
  AddGatedFfn(config, Role::kSharedGateUp, Role::kSharedDown, layer, ffn.shared_ffn, 1, tensors);
}

}  // namespace

std::string PackedTensor::name() const {
  return layer < 0 ? std::string(RoleName(role)) : Concat("layers.", layer, ".", RoleName(role));
}

bool PackedTensor::is_quantizable_to(WeightFormat format) const {
  if (format == WeightFormat::kMxfp4) return role == Role::kGateUp || role == Role::kDown;
  switch (role) {
    case Role::kQkv:
    case Role::kQueryDown:
    case Role::kQueryUp:
    case Role::kKvDown:
    case Role::kAttentionOut:
    case Role::kGateUp:
    case Role::kDown:
    case Role::kSharedGateUp:
    case Role::kSharedDown:
    case Role::kDenseGateUp:
    case Role::kDenseDown:
      return true;
    default:
      return false;
  }
}

PanelLayout PackedTensor::layout_as(WeightType type) const {
  PanelLayout result = layout;
  result.format = type.format;
  result.group = type.group;
  return result;
}

std::vector<int64_t> PackedTensor::shape(WeightType type) const {
  if (storage == Storage::kVector) return {layout.in};
  if (storage == Storage::kRows) return {layout.out, layout.in};
  const PanelLayout panels = layout_as(type);
  if (type.format == WeightFormat::kMxfp4) {
    return {num_matrices, panels.num_panels(), panels.num_groups(),
            static_cast<int64_t>(panels.group_bytes()) / PanelLayout::kWidth, PanelLayout::kWidth};
  }
  if (IsInteger(type.format)) {
    return {num_matrices, panels.num_panels(), panels.num_groups(),
            static_cast<int64_t>(panels.group_bytes())};
  }
  if (type.format == WeightFormat::kBf16) {
    return {num_matrices, panels.num_panels(), (layout.in + 1) / 2, PanelLayout::kWidth, 2};
  }
  return {num_matrices, panels.num_panels(), layout.in, PanelLayout::kWidth};
}

DType StoredDType(WeightFormat format) {
  return format == WeightFormat::kInt8 ? DType::kI8 : DTypeOfFormat(format);
}

std::optional<WeightType> TypeOfPanels(DType dtype, const std::vector<int64_t>& shape) {
  if (IsModelFloat(dtype)) return FormatOf(dtype);
  constexpr PanelLayout kMxfp4{WeightFormat::kMxfp4, PanelOrder::kPlain, 1, kDefaultGroup};
  if (dtype == DType::kU8 && shape.size() == 5 && shape[4] == PanelLayout::kWidth &&
      shape[3] * shape[4] == static_cast<int64_t>(kMxfp4.group_bytes())) {
    return WeightType(WeightFormat::kMxfp4);
  }
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const int64_t group : kGroups) {
      const PanelLayout layout{format, PanelOrder::kPlain, 1, group, group};
      if (dtype == StoredDType(format) && shape.size() == 4 &&
          shape[3] == static_cast<int64_t>(layout.group_bytes())) {
        return WeightType(format, group);
      }
    }
  }
  return std::nullopt;
}

std::string HeaderChecksum(const std::map<std::string, std::string>& metadata,
                           std::vector<HeaderEntry> tensors) {
  Checksum checksum;
  // Lengths in between: neighbours must not be able to trade bytes.
  const auto add = [&](std::string_view text) {
    const std::string length = Concat(text.size(), ":");
    checksum.Update(std::as_bytes(std::span(length)));
    checksum.Update(std::as_bytes(std::span(text)));
  };
  for (const auto& [key, value] : metadata) {
    if (key == kHeaderChecksumKey) continue;
    add(key);
    add(value);
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const HeaderEntry& a, const HeaderEntry& b) { return a.name < b.name; });
  for (const HeaderEntry& tensor : tensors) {
    add(tensor.name);
    add(tensor.dtype);
    add(ShapeText(tensor.shape));
  }
  return checksum.Hex();
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
  AddNorm(config, Role::kFinalNorm, Role::kFinalNormBias, -1, tensors);
  tensors.push_back(Panels(Role::kHead, -1, vocabulary));
  if (config.has_head_bias) tensors.push_back(Vector(Role::kHeadBias, -1, config.vocab_size));
  return tensors;
}

}  // namespace opst
