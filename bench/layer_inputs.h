// Random weights, activations and router logits of a layer, the same in every run and on every
// machine. No model's weights: speed does not depend on them, and checks need them exact.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_LAYER_INPUTS_H_
#define OPST_BENCH_LAYER_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/memory.h"
#include "bench/shape.h"
#include "opst/context.h"
#include "opst/ops/moe_ffn.h"

namespace opst::bench {

// The f32 weights of one expert: gate_up [2F, H] (gate rows, then up rows) and, behind it, down
// [H, F]. Every value is an integer of at most 127 times a power of two, for int4 of -8 … 7, hence
// exact in the format: results differ from sums in f64 only by rounding of sums, and of activations
// where weights are integers. Variance about 1 / inputs.
void FillExpert(const LayerShape& shape, WeightFormat format, int64_t expert, float* weights);

// All experts in f32, as FillExpert writes them, one after the other.
class PlainExperts {
 public:
  // Throws kOutOfMemory.
  PlainExperts(const Context& context, const LayerShape& shape, WeightFormat format);

  const float* gate_up(int64_t expert) const;  // [2F, H]
  const float* down(int64_t expert) const;     // [H, F]

 private:
  size_t expert_floats_;
  size_t gate_up_floats_;
  AlignedBuffer buffer_;
};

// The same weights packed; `plain` saves making them again, or is null: then every worker takes
// memory for one expert in f32 meanwhile. Throws kOutOfMemory.
ExpertWeights PackExpertsOf(const Context& context, const LayerShape& shape, WeightType type,
                            const PlainExperts* plain);
// Bytes of the result.
size_t PackedBytes(const LayerShape& shape, WeightType type);

// [T, H] in (-1, 1).
std::vector<float> RandomTokens(int64_t num_tokens, int64_t hidden);

enum class RoutingKind : uint8_t {
  kUniform,  // every expert equally likely
  kZipf,     // the expert of popularity rank r is drawn in proportion to 1 / r
  kOneHot,   // one expert is the first choice of every token, the others are uniform
};
std::string_view Name(RoutingKind kind);

// Logits [T, E] whose top-k are draws without replacement from the kind's popularities; the same
// experts are popular for every seed.
std::vector<float> RandomLogits(RoutingKind kind, int64_t num_tokens, int64_t num_experts,
                                uint32_t seed);

}  // namespace opst::bench

#endif  // OPST_BENCH_LAYER_INPUTS_H_
