// Which source tensors fill a packed tensor of each role, in which layout.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/source_map.h"

namespace opst {
namespace {

// Roles that one source tensor of the same shape fills.
struct PlainRole {
  Role role;
  std::string_view TensorNames::*name;
};

constexpr PlainRole kPlainRoles[] = {
    {Role::kEmbedding, &TensorNames::embedding},
    {Role::kHead, &TensorNames::head},
    {Role::kHeadBias, &TensorNames::head_bias},
    {Role::kFinalNorm, &TensorNames::final_norm},
    {Role::kFinalNormBias, &TensorNames::final_norm_bias},
    {Role::kAttentionNorm, &TensorNames::attention_norm},
    {Role::kAttentionNormBias, &TensorNames::attention_norm_bias},
    {Role::kQueryNorm, &TensorNames::query_norm},
    {Role::kKeyNorm, &TensorNames::key_norm},
    {Role::kSinks, &TensorNames::sinks},
    {Role::kQueryDown, &TensorNames::query_down},
    {Role::kQueryDownNorm, &TensorNames::query_down_norm},
    {Role::kKvDown, &TensorNames::kv_down},
    {Role::kKvDownNorm, &TensorNames::kv_down_norm},
    {Role::kAttentionOut, &TensorNames::output},
    {Role::kAttentionOutBias, &TensorNames::output_bias},
    {Role::kFfnNorm, &TensorNames::ffn_norm},
    {Role::kFfnNormBias, &TensorNames::ffn_norm_bias},
    {Role::kRouterHidden, &TensorNames::router_hidden},
    {Role::kRouter, &TensorNames::router},
    {Role::kRouterBias, &TensorNames::router_bias},
    {Role::kSelectionBias, &TensorNames::selection_bias},
    {Role::kSharedGate, &TensorNames::shared_expert_gate},
    {Role::kSharedDown, &TensorNames::shared_down},
    {Role::kDenseDown, &TensorNames::dense_down},
};

}  // namespace

std::vector<SourceMatrix> SourceMap::SourcesOf(const PackedTensor& packed) {
  const TensorNames& names = family_.names;
  switch (packed.role) {
    case Role::kQkv:
      return {QkvParts(packed.layer, false)};
    case Role::kQkvBias:
      return {QkvParts(packed.layer, true)};
    case Role::kQueryUp: {
      const bool is_direct = config_.attention.latent.query_rank == 0;
      return {{{Take(is_direct ? names.query : names.query_up, packed.layer, packed.layout.out,
                     packed.layout.in)}}};
    }
    case Role::kKeyUp:
    case Role::kValueUp:
      return LatentHeads(packed);
    case Role::kGateUp:
    case Role::kDown:
      return Experts(packed);
    case Role::kGateUpBias:
    case Role::kDownBias:
      return {FusedBias(packed)};
    case Role::kSharedGateUp:
      return {GatedPair(packed, names.shared_gate, names.shared_up)};
    case Role::kDenseGateUp:
      return {GatedPair(packed, names.dense_gate, names.dense_up)};
    default:
      break;
  }
  for (const PlainRole& plain : kPlainRoles) {
    if (plain.role != packed.role) continue;
    const bool is_tied = packed.role == Role::kHead && config_.ties_embeddings;
    const std::string_view name = is_tied ? names.embedding : names.*plain.name;
    if (packed.storage == Storage::kVector) {
      return {{{TakeVector(name, packed.layer, packed.layout.in)}}};
    }
    return {{{Take(name, packed.layer, packed.layout.out, packed.layout.in)}}};
  }
  return {};
}

SourceMatrix SourceMap::GatedPair(const PackedTensor& packed, std::string_view gate,
                                  std::string_view up) {
  const int64_t ffn = packed.layout.out / 2;
  return {{Take(gate, packed.layer, ffn, packed.layout.in),
           Take(up, packed.layer, ffn, packed.layout.in)}};
}

SourceMatrix SourceMap::QkvParts(int64_t layer, bool is_bias) {
  const TensorNames& names = family_.names;
  const int64_t query = config_.attention.query_width();
  const int64_t kv = config_.attention.kv_width();
  if (is_bias) {
    return {{TakeVector(names.query_bias, layer, query), TakeVector(names.key_bias, layer, kv),
             TakeVector(names.value_bias, layer, kv)}};
  }
  const int64_t hidden = config_.hidden();
  return {{Take(names.query, layer, query, hidden), Take(names.key, layer, kv, hidden),
           Take(names.value, layer, kv, hidden)}};
}

std::vector<SourceMatrix> SourceMap::Experts(const PackedTensor& packed) {
  const TensorNames& names = family_.names;
  const bool is_gate_up = packed.role == Role::kGateUp;
  const std::string_view fused = is_gate_up ? names.fused_gate_up : names.fused_down;
  if (FindAny(fused, packed.layer, 0) != nullptr) return FusedExperts(packed, fused);
  const int64_t hidden = config_.hidden();
  const int64_t ffn = config_.ffn.ffn;
  std::vector<SourceMatrix> matrices;
  for (int64_t expert = 0; expert < config_.routing.num_experts; ++expert) {
    if (is_gate_up) {
      const auto& gate = TakeTensor(names.expert_gate, packed.layer, expert, {ffn, hidden});
      const auto& up = TakeTensor(names.expert_up, packed.layer, expert, {ffn, hidden});
      matrices.push_back({{{&gate, 0, ffn, hidden}, {&up, 0, ffn, hidden}}});
    } else {
      const auto& down = TakeTensor(names.expert_down, packed.layer, expert, {hidden, ffn});
      matrices.push_back({{{&down, 0, hidden, ffn}}});
    }
  }
  return matrices;
}

std::vector<SourceMatrix> SourceMap::FusedExperts(const PackedTensor& packed,
                                                  std::string_view name) {
  const int64_t experts = config_.routing.num_experts;
  const bool is_gate_up = packed.role == Role::kGateUp;
  const bool is_interleaved = family_.fused_layout == FusedLayout::kInterleaved;
  const int64_t rows = packed.layout.out;
  const int64_t columns = packed.layout.in;
  const std::vector<int64_t> shape = is_interleaved ? std::vector<int64_t>{experts, columns, rows}
                                                    : std::vector<int64_t>{experts, rows, columns};
  const SourceTensor& tensor = TakeTensor(name, packed.layer, 0, shape);
  const int64_t half = rows / 2;
  std::vector<SourceMatrix> matrices;
  for (int64_t expert = 0; expert < experts; ++expert) {
    const int64_t row = expert * rows;
    const int64_t first = row * columns;
    if (is_interleaved && is_gate_up) {
      matrices.push_back({{{&tensor, 0, half, columns, SourceStrides{first, 2, rows}},
                           {&tensor, 0, half, columns, SourceStrides{first + 1, 2, rows}}}});
    } else if (is_interleaved) {
      matrices.push_back({{{&tensor, 0, rows, columns, SourceStrides{first, 1, rows}}}});
    } else if (is_gate_up) {
      matrices.push_back({{{&tensor, row, half, columns}, {&tensor, row + half, half, columns}}});
    } else {
      matrices.push_back({{{&tensor, row, rows, columns}}});
    }
  }
  return matrices;
}

// The biases of all experts as one vector; those of gate_up de-interleaved as their matrices are.
SourceMatrix SourceMap::FusedBias(const PackedTensor& packed) {
  const int64_t experts = config_.routing.num_experts;
  const bool is_gate_up = packed.role == Role::kGateUpBias;
  const int64_t length = packed.layout.in / experts;
  const std::string_view name =
      is_gate_up ? family_.names.fused_gate_up_bias : family_.names.fused_down_bias;
  const SourceTensor& tensor = TakeTensor(name, packed.layer, 0, {experts, length});
  if (!is_gate_up || family_.fused_layout != FusedLayout::kInterleaved) {
    return {{{&tensor, 0, experts, length}}};
  }
  SourceMatrix matrix;
  const int64_t half = length / 2;
  for (int64_t expert = 0; expert < experts; ++expert) {
    const int64_t first = expert * length;
    matrix.parts.push_back({&tensor, 0, 1, half, SourceStrides{first, 0, 2}});
    matrix.parts.push_back({&tensor, 0, 1, half, SourceStrides{first + 1, 0, 2}});
  }
  return matrix;
}

// The up projection of latents holds, per head, the rows of the key's content and then those of the
// value. A query is multiplied with the former from the other side: transposed.
std::vector<SourceMatrix> SourceMap::LatentHeads(const PackedTensor& packed) {
  const AttentionRecipe& attention = config_.attention;
  const LatentRecipe& latent = attention.latent;
  const int64_t rank = latent.kv_rank;
  const int64_t rows = latent.content_dim + latent.value_dim;
  const SourceTensor& tensor =
      TakeTensor(family_.names.kv_up, packed.layer, 0, {attention.num_heads * rows, rank});
  std::vector<SourceMatrix> matrices;
  for (int64_t head = 0; head < attention.num_heads; ++head) {
    const int64_t row = head * rows;
    if (packed.role == Role::kKeyUp) {
      matrices.push_back(
          {{{&tensor, 0, rank, latent.content_dim, SourceStrides{row * rank, 1, rank}}}});
    } else {
      matrices.push_back({{{&tensor, row + latent.content_dim, latent.value_dim, rank}}});
    }
  }
  return matrices;
}

}  // namespace opst
