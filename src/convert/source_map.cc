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

SourceMap::SourceMap(const ModelSource& checkpoint, const Family& family, const ModelConfig& config,
                     const ConvertOptions& options)
    : checkpoint_(checkpoint),
      family_(family),
      config_(config),
      quantized_(options.quantized),
      expands_mxfp4_(options.expands_mxfp4) {
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
  const std::string name = found != nullptr
                               ? found->name()
                               : TensorName(pattern.substr(0, pattern.find('|')), layer, expert);
  if (const SourceTensor* declared = checkpoint_.Declare(name, shape)) found = declared;
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

SourceRows SourceMap::TakeVector(std::string_view pattern, int64_t layer, int64_t length) {
  // A vector may be written as one row: [1, n].
  const SourceTensor* found = FindAny(pattern, layer, 0);
  const std::vector<int64_t> row{1, length};
  const bool is_row = found != nullptr && found->tensor->shape == row;
  return {&TakeTensor(pattern, layer, 0, is_row ? row : std::vector<int64_t>{length}), 0, 1,
          length};
}

MappedTensor SourceMap::Map(const PackedTensor& packed) {
  MappedTensor mapped{packed, WeightFormat::kF32, SourcesOf(packed)};
  const SourceTensor& first = *mapped.matrices.front().parts.front().tensor;
  mapped.type = FormatOfSource(first, checkpoint_.folder());
  if (quantized_ && packed.is_quantizable_to(quantized_->format)) {
    mapped.type = *quantized_;
  } else if (KeepsMxfp4(mapped)) {
    mapped.type = WeightFormat::kMxfp4;
  }
  for (const SourceMatrix& source : mapped.matrices) {
    for (const SourceRows& part : source.parts) {
      OPST_CHECK_IO(part.tensor->tensor->dtype == first.tensor->dtype, checkpoint_.folder(),
                    Concat("sources of ", packed.name(), " must have one dtype"),
                    first.tensor->Describe(), " and ", part.tensor->tensor->Describe());
    }
  }
  return mapped;
}

bool SourceMap::KeepsMxfp4(const MappedTensor& mapped) const {
  if (expands_mxfp4_ || quantized_) return false;
  if (!mapped.packed.is_quantizable_to(WeightFormat::kMxfp4)) return false;
  return std::all_of(
      mapped.matrices.begin(), mapped.matrices.end(), [&](const SourceMatrix& source) {
        return std::all_of(source.parts.begin(), source.parts.end(), [&](const SourceRows& part) {
          return checkpoint_.IsMxfp4(*part.tensor);
        });
      });
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
      if (pattern.find("{next}") == std::string_view::npos) {
        return MatchesPattern(source.name(), pattern);
      }
      for (int64_t next = 0; next < config_.num_prediction_layers; ++next) {
        const std::string name = TensorName(pattern, config_.num_layers + next);
        if (MatchesPattern(source.name(), name)) return true;
      }
      return false;
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
