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

#include "model/packed_model.h"
#include "nn/kv_cache.h"
#include "nn/rope.h"
#include "opst/model.h"
#include "opst/moe_layer.h"

namespace opst {

struct AttentionWeights {
  std::vector<float> norm;        // [H]
  PackedWeights qkv;              // [(heads + 2·kv heads)·d, H]
  std::vector<float> query_norm;  // empty, [d] or [heads·d]
  std::vector<float> key_norm;    // empty, [d] or [kv heads·d]
  PackedWeights out;              // [H, heads·d]
};

struct DecoderLayer {
  AttentionWeights attention;
  std::vector<float> ffn_norm;  // [H]
  std::optional<MoeLayer> moe;  // one of the two
  std::optional<ExpertWeights> dense;
};

class DecoderWeights {
 public:
  explicit DecoderWeights(const PackedModel& file);

  // x [T,H] f32 = embedding rows of the tokens.
  void Embed(std::span<const int32_t> tokens, TensorView x) const;

  ModelConfig config;
  std::vector<DecoderLayer> layers;
  std::vector<float> final_norm;  // [H]
  PackedWeights head;             // [V,H]
  Rope rope;

 private:
  std::optional<ConstTensorView> embedding_;  // [V,H]; none when tied to the head
};

// Runs all layers on tokens at positions first_position …, extends the cache, and writes logits of
// the last logits.dim(0) tokens.
void ForwardTokens(const Context& context, const DecoderWeights& weights,
                   std::span<const int32_t> tokens, int64_t first_position, const KvCache& cache,
                   TensorView logits, const ForwardOptions& options);

}  // namespace opst

#endif  // OPST_MODEL_DECODER_H_
