// Makes the numbers by hashing their positions, so that any expert can be made again alone.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/layer_inputs.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "base/thread_pool.h"
#include "opst/pack.h"
#include "tensor/integer_panels.h"

namespace opst::bench {
namespace {

uint32_t Hash(uint32_t x) {
  x *= 0x9E3779B1u;
  x ^= x >> 15;
  x *= 0x85EBCA77u;
  x ^= x >> 13;
  x *= 0xC2B2AE3Du;
  return x ^ (x >> 16);
}

// -127 … 127; their standard deviation is 73.
float SmallInteger(uint32_t hash) {
  return static_cast<float>(static_cast<int32_t>(hash % 255) - 127);
}

// -8 … 7; their standard deviation is 4.6.
float Nibble(uint32_t hash) { return static_cast<float>(static_cast<int32_t>(hash >> 28) - 8); }

// 4-bit floats, doubled; their standard deviation is 5.9.
float SmallFloat(uint32_t hash) { return kMxfp4Values[hash >> 28]; }

// Numbers that a format holds exactly beside their group's extreme.
struct Numbers {
  float (*number)(uint32_t hash);
  float deviation;
  float extreme;
};

Numbers NumbersOf(WeightFormat format) {
  if (format == WeightFormat::kInt4) return {Nibble, 4.6f, -8.0f};
  if (format == WeightFormat::kMxfp4) return {SmallFloat, 5.9f, 12.0f};
  return {SmallInteger, 73.0f, 127.0f};
}

// The first of every group is the extreme, so that the group's scale is `scale` exactly.
void FillMatrix(WeightFormat format, uint32_t seed, int64_t num_rows, int64_t in, float* out) {
  const auto [number, deviation, extreme] = NumbersOf(format);
  const float root = std::sqrt(static_cast<float>(in));
  const float scale = std::exp2(-std::round(std::log2(deviation * root)));
  for (int64_t row = 0; row < num_rows; ++row) {
    const uint32_t row_seed = Hash(seed + static_cast<uint32_t>(row));
    for (int64_t k = 0; k < in; ++k) {
      const uint32_t hash = Hash(row_seed + static_cast<uint32_t>(k));
      const bool is_extreme = IsInteger(format) && k % kDefaultGroup == 0;
      out[row * in + k] = scale * (is_extreme ? extreme : number(hash));
    }
  }
}

size_t Floats(int64_t count) { return static_cast<size_t>(count); }

PanelLayout GateUpLayout(const LayerShape& shape, WeightType type) {
  return {type.format, PanelOrder::kGateUp, 2 * shape.ffn, shape.hidden, type.group};
}
PanelLayout DownLayout(const LayerShape& shape, WeightType type) {
  return {type.format, PanelOrder::kPlain, shape.hidden, shape.ffn, type.group};
}

// (0, 1), never 0 or 1.
double UnitInterval(std::mt19937& random) {
  return (static_cast<double>(random()) + 0.5) / 4294967296.0;
}

// log of each expert's popularity, up to a constant.
std::vector<double> LogPopularity(RoutingKind kind, int64_t num_experts) {
  std::vector<double> popularity(static_cast<size_t>(num_experts), 0.0);
  if (kind == RoutingKind::kOneHot) {
    // Beyond what Gumbel noise of a million tokens reaches, yet e^-20 keeps the other scores apart.
    popularity[0] = 20;
  } else if (kind == RoutingKind::kZipf) {
    for (size_t rank = 0; rank < popularity.size(); ++rank) {
      popularity[rank] = -std::log(static_cast<double>(rank + 1));
    }
    // Popular experts stand anywhere, as in a model.
    std::mt19937 random(1);
    for (size_t i = popularity.size() - 1; i > 0; --i) {
      std::swap(popularity[i], popularity[random() % (i + 1)]);
    }
  }
  return popularity;
}

}  // namespace

void FillExpert(const LayerShape& shape, WeightFormat format, int64_t expert, float* weights) {
  const auto seed = static_cast<uint32_t>(expert) * 2;
  FillMatrix(format, Hash(seed), 2 * shape.ffn, shape.hidden, weights);
  FillMatrix(format, Hash(seed + 1), shape.hidden, shape.ffn,
             weights + 2 * shape.ffn * shape.hidden);
}

PlainExperts::PlainExperts(const Context& context, const LayerShape& shape, WeightFormat format)
    : expert_floats_(Floats(shape.expert_elements())),
      gate_up_floats_(Floats(2 * shape.ffn * shape.hidden)),
      buffer_(static_cast<size_t>(shape.num_experts) * expert_floats_ * sizeof(float)) {
  auto* floats = reinterpret_cast<float*>(buffer_.data());
  context.pool().ParallelFor(static_cast<size_t>(shape.num_experts), [&](size_t expert, int) {
    FillExpert(shape, format, static_cast<int64_t>(expert), floats + expert * expert_floats_);
  });
}

const float* PlainExperts::gate_up(int64_t expert) const {
  return reinterpret_cast<const float*>(buffer_.data()) +
         static_cast<size_t>(expert) * expert_floats_;
}

const float* PlainExperts::down(int64_t expert) const { return gate_up(expert) + gate_up_floats_; }

size_t PackedBytes(const LayerShape& shape, WeightType type) {
  return static_cast<size_t>(shape.num_experts) *
         (GateUpLayout(shape, type).matrix_bytes() + DownLayout(shape, type).matrix_bytes());
}

ExpertWeights PackExpertsOf(const Context& context, const LayerShape& shape, WeightType type,
                            const PlainExperts* plain) {
  const PanelLayout gate_up = GateUpLayout(shape, type);
  const PanelLayout down = DownLayout(shape, type);
  const auto num_experts = static_cast<size_t>(shape.num_experts);
  const auto gate_up_buffer = std::make_shared<AlignedBuffer>(num_experts * gate_up.matrix_bytes());
  const auto down_buffer = std::make_shared<AlignedBuffer>(num_experts * down.matrix_bytes());
  std::vector<AlignedBuffer> scratch(static_cast<size_t>(context.num_threads()));
  context.pool().ParallelFor(num_experts, [&](size_t index, int worker) {
    const auto expert = static_cast<int64_t>(index);
    const float* weights = plain == nullptr ? nullptr : plain->gate_up(expert);
    if (weights == nullptr) {
      AlignedBuffer& own = scratch[static_cast<size_t>(worker)];
      const size_t bytes = Floats(shape.expert_elements()) * sizeof(float);
      if (own.size() == 0) own = AlignedBuffer(bytes);
      FillExpert(shape, type.format, expert, reinterpret_cast<float*>(own.data()));
      weights = reinterpret_cast<const float*>(own.data());
    }
    const int64_t half = shape.ffn * shape.hidden;
    PackGateUp(gate_up, ConstTensorView(weights, Shape{shape.ffn, shape.hidden}),
               ConstTensorView(weights + half, Shape{shape.ffn, shape.hidden}),
               gate_up_buffer->data() + index * gate_up.matrix_bytes());
    PackMatrix(down, ConstTensorView(weights + 2 * half, Shape{shape.hidden, shape.ffn}),
               down_buffer->data() + index * down.matrix_bytes());
  });
  return {PackedWeights(gate_up, shape.num_experts, gate_up_buffer->data(), gate_up_buffer),
          PackedWeights(down, shape.num_experts, down_buffer->data(), down_buffer)};
}

std::vector<float> RandomTokens(int64_t num_tokens, int64_t hidden) {
  std::vector<float> x(static_cast<size_t>(num_tokens * hidden));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = SmallInteger(Hash(static_cast<uint32_t>(i) ^ 0x5BD1E995u)) / 128;
  }
  return x;
}

std::string_view Name(RoutingKind kind) {
  switch (kind) {
    case RoutingKind::kUniform:
      return "uniform";
    case RoutingKind::kZipf:
      return "zipf";
    case RoutingKind::kOneHot:
      return "one-hot";
  }
  return "";
}

std::vector<float> RandomLogits(RoutingKind kind, int64_t num_tokens, int64_t num_experts,
                                uint32_t seed) {
  // The largest k of log p + Gumbel noise are k draws without replacement in proportion to p.
  const std::vector<double> popularity = LogPopularity(kind, num_experts);
  std::mt19937 random(seed);
  std::vector<float> logits(static_cast<size_t>(num_tokens * num_experts));
  for (size_t i = 0; i < logits.size(); ++i) {
    const double noise = -std::log(-std::log(UnitInterval(random)));
    logits[i] = static_cast<float>(popularity[i % popularity.size()] + noise);
  }
  return logits;
}

}  // namespace opst::bench
