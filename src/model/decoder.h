// The one decoder forward pass that all families share: weights in place, and the pass over a
// chunk.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_DECODER_H_
#define OPST_MODEL_DECODER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/attention_block.h"
#include "model/packed_model.h"
#include "nn/kv_cache.h"
#include "nn/rope.h"
#include "opst/model.h"
#include "opst/moe_layer.h"

namespace opst {

// Biases of the routed experts, which ExpertWeights only borrow.
struct ExpertBiases {
  std::vector<float> gate_up;  // [E·2F] or empty
  std::vector<float> down;     // [E·H] or empty
};

struct DecoderLayer {
  NormWeights attention_norm;
  AttentionWeights attention;
  NormWeights ffn_norm;
  ExpertBiases expert_biases;
  std::optional<MoeLayer> moe;  // one of the two
  std::optional<ExpertWeights> dense;
};

class DecoderWeights {
 public:
  explicit DecoderWeights(const PackedModel& file);

  // x [T,H] f32 = embedding rows of the tokens, scaled.
  void Embed(const Context& context, std::span<const int32_t> tokens, TensorView x) const;

  ModelConfig config;
  std::vector<DecoderLayer> layers;
  NormWeights final_norm;
  PackedWeights head;            // [V,H]
  std::vector<float> head_bias;  // [V] or empty
  Rope rope;

 private:
  std::optional<ConstTensorView> embedding_;  // [V,H]; none when tied to the head
};

// Where the tokens of a sequence stand.
struct Positions {
  int64_t first = 0;
  int64_t text_length = 0;  // known length of the text; see Sequence::ExpectLength
};

// Tokens of one sequence in a batch.
struct DecoderSegment {
  std::span<const int32_t> tokens;
  Positions positions;
  const KvCache* cache;
  int64_t num_logits;  // of its last tokens
};

// Runs all layers on the tokens of all segments together, extends their caches, and writes the
// wanted logits, segment after segment.
void ForwardTokens(const Context& context, const DecoderWeights& weights,
                   std::span<const DecoderSegment> segments, TensorView logits,
                   const ForwardOptions& options);

}  // namespace opst

#endif  // OPST_MODEL_DECODER_H_
