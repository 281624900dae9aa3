// Draws tokens from logits; knows nothing of text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_RUNTIME_SAMPLER_H_
#define OPST_RUNTIME_SAMPLER_H_

#include <cstdint>
#include <random>
#include <span>

#include "opst/engine.h"

namespace opst {

// One per generated text: the state of its random numbers.
class Sampler {
 public:
  // Throws kInvalidArgument: temperature negative or not finite, top_k negative, top_p outside
  // (0, 1].
  explicit Sampler(const SamplingOptions& options);

  // Throws kInvalidArgument when no logit is a number above -inf: the model's output is broken.
  int32_t Next(std::span<const float> logits);

 private:
  double NextUniform();

  SamplingOptions options_;
  std::mt19937_64 random_;
};

}  // namespace opst

#endif  // OPST_RUNTIME_SAMPLER_H_
