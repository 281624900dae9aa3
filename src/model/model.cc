// The public face of a loaded model: checks, and the handles behind it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/model.h"

#include <utility>

#include "base/check.h"
#include "base/config.h"
#include "model/decoder.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "model";

}  // namespace

Sequence::Sequence(std::unique_ptr<KvCache> cache) : cache_(std::move(cache)) {}
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;
Sequence::~Sequence() = default;

int64_t Sequence::capacity() const { return cache_->capacity(); }

Model::Model(std::shared_ptr<const PackedModel> file)
    : file_(std::move(file)), weights_(std::make_unique<DecoderWeights>(*file_)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::Load(const Context& context, const std::string& path) {
  auto file = PackedModel::Open(path, LoadOptionsOf(context.config()));
  if (context.config().GetBool("check_on_load")) file->CheckChecksums();
  return Model(std::move(file));
}

const ModelConfig& Model::config() const { return weights_->config; }

std::optional<std::string_view> Model::TextFile(std::string_view name) const {
  return file_->TextFile(name);
}

Sequence Model::NewSequence(int64_t capacity) const {
  OPST_CHECK_ARG(capacity > 0, kWhere, "a sequence must have room for at least one token",
                 capacity);
  const ModelConfig& model = config();
  const BufferOptions pages{.use_huge_pages = file_->load_options().use_huge_pages};
  return Sequence(std::make_unique<KvCache>(model.attention, model.num_layers, capacity, pages));
}

size_t Model::SequenceBytes(int64_t capacity) const {
  return KvCache::NumBytes(config().attention, config().num_layers, capacity);
}

void Model::Forward(const Context& context, std::span<const int32_t> tokens, Sequence& sequence,
                    TensorView logits, const ForwardOptions& options) const {
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  OPST_CHECK_ARG(num_tokens > 0, kWhere, "at least one token must be given", num_tokens);
  OPST_CHECK_ARG(sequence.length() + num_tokens <= sequence.capacity(), kWhere,
                 "the sequence must have room for the tokens", sequence.length(), " + ", num_tokens,
                 " tokens in room for ", sequence.capacity());
  OPST_CHECK_ARG(logits.rank() == 2 && logits.dtype() == DType::kF32 && logits.dim(0) >= 1 &&
                     logits.dim(0) <= num_tokens && logits.dim(1) == config().vocab_size,
                 kWhere, "logits must be [n,V] f32 with 1 <= n <= number of tokens",
                 logits.ToString(), " for ", num_tokens, " tokens and V ", config().vocab_size);
  for (size_t i = 0; i < tokens.size(); ++i) {
    OPST_CHECK_ARG(tokens[i] >= 0 && tokens[i] < config().vocab_size, kWhere,
                   Concat("token ids must be 0..", config().vocab_size - 1), tokens[i], " at [", i,
                   "]");
  }
  const Positions positions{sequence.length_, sequence.expected_length_};
  ForwardTokens(context, *weights_, tokens, positions, *sequence.cache_, logits, options);
  sequence.length_ += num_tokens;
}

}  // namespace opst
