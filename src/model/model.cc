// The public face of a loaded model: checks, and the handles behind it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/config.h"
#include "base/out_of_memory.h"
#include "model/decoder.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "model";
// Far beyond any memory, so that sizes fit 64 bits.
constexpr int64_t kMaxCapacity = int64_t{1} << 40;

}  // namespace

Sequence::Sequence(std::unique_ptr<KvCache> cache) : cache_(std::move(cache)) {}
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;
Sequence::~Sequence() = default;

int64_t Sequence::capacity() const { return cache_ == nullptr ? 0 : cache_->capacity(); }

void Sequence::Truncate(int64_t length) {
  OPST_CHECK_ARG(length >= 0 && length <= length_, kWhere,
                 "a sequence can only be cut to a length that it has", length, " of ", length_);
  length_ = length;
  expected_length_ = 0;
}

Model::Model(std::shared_ptr<const PackedModel> file)
    : file_(std::move(file)), weights_(std::make_unique<DecoderWeights>(*file_)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::Load(const Context& context, const std::string& path) {
  return NamingOutOfMemory(path, [&] {
    auto file = PackedModel::Open(path, LoadOptionsOf(context.config()));
    if (context.config().GetBool("check_on_load")) file->CheckChecksums();
    return Model(std::move(file));
  });
}

const ModelConfig& Model::config() const { return weights_->config; }

std::optional<std::string_view> Model::TextFile(std::string_view name) const {
  return file_->TextFile(name);
}

Model::WeightBytes Model::CountWeightBytes() const {
  WeightBytes bytes;
  for (const PackedTensor& tensor : PackedTensors(config())) {
    const uint64_t size = file_->file().At(tensor.name()).num_bytes;
    bytes.all += size;
    const bool is_routed = tensor.role == Role::kGateUp || tensor.role == Role::kDown;
    if (is_routed) bytes.routed_experts += size;
  }
  return bytes;
}

Sequence Model::NewSequence(int64_t capacity) const {
  OPST_CHECK_ARG(capacity > 0 && capacity <= kMaxCapacity, kWhere,
                 Concat("a sequence must have room for 1..", kMaxCapacity, " tokens"), capacity);
  const ModelConfig& model = config();
  const BufferOptions pages{.use_huge_pages = file_->load_options().use_huge_pages};
  return Sequence(std::make_unique<KvCache>(model.attention, model.num_layers, capacity, pages));
}

size_t Model::SequenceBytes(int64_t capacity) const {
  return KvCache::NumBytes(config().attention, config().num_layers, capacity);
}

void Model::CheckEntry(const BatchEntry& entry) const {
  const std::span<const int32_t> tokens = entry.tokens;
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  OPST_CHECK_ARG(num_tokens > 0, kWhere, "at least one token must be given", num_tokens);
  OPST_CHECK_ARG(entry.sequence->cache_ != nullptr &&
                     entry.sequence->cache_->Fits(config().attention, config().num_layers),
                 kWhere, "the sequence must be one of this model",
                 entry.sequence->cache_ == nullptr ? "one that was moved away"
                                                   : "one with other layers or heads");
  OPST_CHECK_ARG(entry.sequence->length() + num_tokens <= entry.sequence->capacity(), kWhere,
                 "the sequence must have room for the tokens", entry.sequence->length(), " + ",
                 num_tokens, " tokens in room for ", entry.sequence->capacity());
  for (size_t i = 0; i < tokens.size(); ++i) {
    OPST_CHECK_ARG(tokens[i] >= 0 && tokens[i] < config().vocab_size, kWhere,
                   Concat("token ids must be 0..", config().vocab_size - 1), tokens[i], " at [", i,
                   "]");
  }
}

void Model::Forward(const Context& context, std::span<const int32_t> tokens, Sequence& sequence,
                    TensorView logits, const ForwardOptions& options) const {
  return NamingOutOfMemory(kWhere, [&] {
    CheckEntry({tokens, &sequence});
    const auto num_tokens = static_cast<int64_t>(tokens.size());
    OPST_CHECK_ARG(logits.rank() == 2 && logits.dtype() == DType::kF32 && logits.dim(0) >= 1 &&
                       logits.dim(0) <= num_tokens && logits.dim(1) == config().vocab_size,
                   kWhere, "logits must be [n,V] f32 with 1 <= n <= number of tokens",
                   logits.ToString(), " for ", num_tokens, " tokens and V ", config().vocab_size);
    CheckExperts(options.experts);
    const DecoderSegment segment{tokens,
                                 {sequence.length_, sequence.expected_length_},
                                 sequence.cache_.get(),
                                 logits.dim(0)};
    ForwardTokens(context, *weights_, std::span(&segment, 1), logits, options);
    sequence.length_ += num_tokens;
  });
}

void Model::ForwardBatch(const Context& context, std::span<const BatchEntry> entries,
                         TensorView logits, const ForwardOptions& options) const {
  return NamingOutOfMemory(kWhere, [&] {
    OPST_CHECK_ARG(!entries.empty(), kWhere, "a batch must have at least one entry", 0);
    std::vector<const Sequence*> sequences;
    std::vector<DecoderSegment> segments;
    for (const BatchEntry& entry : entries) {
      CheckEntry(entry);
      sequences.push_back(entry.sequence);
      const Positions positions{entry.sequence->length_, entry.sequence->expected_length_};
      segments.push_back({entry.tokens, positions, entry.sequence->cache_.get(), 1});
    }
    std::sort(sequences.begin(), sequences.end());
    OPST_CHECK_ARG(std::adjacent_find(sequences.begin(), sequences.end()) == sequences.end(),
                   kWhere, "the sequences of a batch must differ", "one of them twice");
    OPST_CHECK_ARG(logits.rank() == 2 && logits.dtype() == DType::kF32 &&
                       logits.dim(0) == static_cast<int64_t>(entries.size()) &&
                       logits.dim(1) == config().vocab_size,
                   kWhere,
                   Concat("logits must be [", entries.size(), ",", config().vocab_size, "]"),
                   logits.ToString());
    CheckExperts(options.experts);
    ForwardTokens(context, *weights_, segments, logits, options);
    for (const BatchEntry& entry : entries) {
      entry.sequence->length_ += static_cast<int64_t>(entry.tokens.size());
    }
  });
}

}  // namespace opst
