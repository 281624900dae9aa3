// Finds the sources of every packed tensor and accounts for every source tensor.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/source_map.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "io/safetensors_dtype.h"

namespace opst {
namespace {

constexpr size_t kMaxNamesInError = 8;

std::string JoinNames(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamesInError); ++i) {
    text += Concat(i > 0 ? ", " : "", names[i]);
  }
  if (names.size() > kMaxNamesInError) {
    text += Concat(" and ", names.size() - kMaxNamesInError, " more");
  }
  return text;
}

WeightFormat FormatOfSource(const SourceTensor& source, const std::string& where) {
  const std::optional<DType> dtype = DTypeFromSafetensors(source.tensor->dtype);
  OPST_CHECK_IO(dtype && IsModelFloat(*dtype), where, "weights must be F32, BF16 or F16",
                source.tensor->Describe());
  return FormatOf(*dtype);
}

}  // namespace

std::string MappedTensor::source_names() const {
  std::vector<std::string> names;
  for (const SourceMatrix& matrix : matrices) {
    for (const SourceRows& part : matrix.parts) {
      if (names.empty() || names.back() != part.tensor->name())
        names.push_back(part.tensor->name());
    }
  }
  if (names.size() <= kMaxNamesInError) return JoinNames(names);
  return Concat(names.front(), " ... ", names.back());
}

SourceMap::SourceMap(const ShardedCheckpoint& checkpoint, const Family& family,
                     const ModelConfig& config)
    : checkpoint_(checkpoint), family_(family), config_(config) {
  for (const PackedTensor& packed : PackedTensors(config)) tensors_.push_back(Map(packed));
  if (config.ties_embeddings) CheckTiedHead();
  CheckAllUsed();
}

const SourceTensor* SourceMap::FindAny(std::string_view pattern, int64_t layer, int64_t expert) {
  while (!pattern.empty()) {
    const size_t bar = pattern.find('|');
    const SourceTensor* found = checkpoint_.Find(TensorName(pattern.substr(0, bar), layer, expert));
    if (found != nullptr) return found;
    pattern = bar == std::string_view::npos ? std::string_view() : pattern.substr(bar + 1);
  }
  return nullptr;
}

const SourceTensor& SourceMap::TakeTensor(std::string_view pattern, int64_t layer, int64_t expert,
                                          const std::vector<int64_t>& shape) {
  const SourceTensor* found = FindAny(pattern, layer, expert);
  OPST_CHECK_IO(found != nullptr, checkpoint_.folder(),
                Concat("the checkpoint must have the tensor ", TensorName(pattern, layer, expert)),
                "none of that name");
  OPST_CHECK_IO(found->tensor->shape == shape, checkpoint_.folder(),
                Concat("the tensor must be ", ShapeText(shape), " by config.json"),
                found->tensor->Describe());
  used_.insert(found->name());
  return *found;
}

SourceRows SourceMap::Take(std::string_view pattern, int64_t layer, int64_t rows, int64_t columns) {
  return {&TakeTensor(pattern, layer, 0, {rows, columns}), 0, rows, columns};
}

std::vector<SourceMatrix> SourceMap::Experts(const PackedTensor& packed) {
  const TensorNames& names = family_.names;
  const int64_t experts = config_.routing.num_experts;
  const int64_t hidden = config_.hidden();
  const int64_t ffn = config_.ffn.ffn;
  const bool is_gate_up = packed.role == Role::kGateUp;
  const std::string_view fused = is_gate_up ? names.fused_gate_up : names.fused_down;
  std::vector<SourceMatrix> matrices;
  if (FindAny(fused, packed.layer, 0) != nullptr) {
    const int64_t rows = is_gate_up ? 2 * ffn : hidden;
    const int64_t columns = is_gate_up ? hidden : ffn;
    const SourceTensor& tensor = TakeTensor(fused, packed.layer, 0, {experts, rows, columns});
    for (int64_t expert = 0; expert < experts; ++expert) {
      const int64_t row = expert * rows;
      if (is_gate_up) {
        matrices.push_back({{{&tensor, row, ffn, columns}, {&tensor, row + ffn, ffn, columns}}});
      } else {
        matrices.push_back({{{&tensor, row, rows, columns}}});
      }
    }
    return matrices;
  }
  for (int64_t expert = 0; expert < experts; ++expert) {
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

MappedTensor SourceMap::Map(const PackedTensor& packed) {
  const TensorNames& names = family_.names;
  const AttentionRecipe& attention = config_.attention;
  const int64_t layer = packed.layer;
  const int64_t hidden = config_.hidden();
  const auto vector = [&](std::string_view pattern) -> std::vector<SourceMatrix> {
    const int64_t length = packed.layout.in;
    return {{{{&TakeTensor(pattern, layer, 0, {length}), 0, 1, length}}}};
  };
  const auto matrix = [&](std::string_view pattern) -> std::vector<SourceMatrix> {
    return {{{Take(pattern, layer, packed.layout.out, packed.layout.in)}}};
  };
  const auto sources = [&]() -> std::vector<SourceMatrix> {
    switch (packed.role) {
      case Role::kEmbedding:
        return matrix(names.embedding);
      case Role::kHead:
        return matrix(config_.ties_embeddings ? names.embedding : names.head);
      case Role::kFinalNorm:
        return vector(names.final_norm);
      case Role::kAttentionNorm:
        return vector(names.attention_norm);
      case Role::kQueryNorm:
        return vector(names.query_norm);
      case Role::kKeyNorm:
        return vector(names.key_norm);
      case Role::kFfnNorm:
        return vector(names.ffn_norm);
      case Role::kQkv:
        return {{{Take(names.query, layer, attention.query_width(), hidden),
                  Take(names.key, layer, attention.kv_width(), hidden),
                  Take(names.value, layer, attention.kv_width(), hidden)}}};
      case Role::kAttentionOut:
        return matrix(names.output);
      case Role::kRouter:
        return matrix(names.router);
      case Role::kGateUp:
      case Role::kDown:
        return Experts(packed);
      case Role::kDenseGateUp:
        return {{{Take(names.dense_gate, layer, config_.dense_ffn, hidden),
                  Take(names.dense_up, layer, config_.dense_ffn, hidden)}}};
      case Role::kDenseDown:
        return matrix(names.dense_down);
    }
    return {};
  };
  MappedTensor mapped{packed, WeightFormat::kF32, sources()};
  const SourceTensor& first = *mapped.matrices.front().parts.front().tensor;
  mapped.format = FormatOfSource(first, checkpoint_.folder());
  for (const SourceMatrix& source : mapped.matrices) {
    for (const SourceRows& part : source.parts) {
      OPST_CHECK_IO(part.tensor->tensor->dtype == first.tensor->dtype, checkpoint_.folder(),
                    Concat("sources of ", packed.name(), " must have one dtype"),
                    first.tensor->Describe(), " and ", part.tensor->tensor->Describe());
    }
  }
  return mapped;
}

// Some writers save the head although it is the embedding; it must then hold the same bytes.
void SourceMap::CheckTiedHead() {
  const SourceTensor* head = FindAny(family_.names.head, 0, 0);
  if (head == nullptr) return;
  const SourceTensor& embedding = *FindAny(family_.names.embedding, 0, 0);
  bool is_same = head->tensor->num_bytes == embedding.tensor->num_bytes &&
                 head->tensor->dtype == embedding.tensor->dtype;
  constexpr uint64_t kStep = uint64_t{64} << 20;
  for (uint64_t at = 0; is_same && at < head->tensor->num_bytes; at += kStep) {
    const uint64_t count = std::min(kStep, head->tensor->num_bytes - at);
    const SourceBytes a = checkpoint_.Read(*head, at, count);
    const SourceBytes b = checkpoint_.Read(embedding, at, count);
    is_same = std::memcmp(a.bytes().data(), b.bytes().data(), count) == 0;
  }
  OPST_CHECK_IO(is_same, checkpoint_.folder(),
                "with tie_word_embeddings the head must equal the embedding",
                head->tensor->Describe(), " with other values");
  used_.insert(head->name());
}

void SourceMap::CheckAllUsed() {
  std::vector<std::string> left_over;
  for (const SourceTensor& source : checkpoint_.tensors()) {
    if (used_.count(source.name()) > 0) continue;
    const auto matches = [&](std::string_view pattern) {
      return MatchesPattern(source.name(), pattern);
    };
    const auto& known = family_.names.unused;
    if (std::any_of(known.begin(), known.end(), matches)) {
      unused_.push_back(source.name());
    } else {
      left_over.push_back(source.name());
    }
  }
  OPST_CHECK_IO(left_over.empty(), checkpoint_.folder(),
                Concat("every tensor must have a place in a ", family_.model_type, " model"),
                left_over.size(), " without one: ", JoinNames(left_over));
}

}  // namespace opst
