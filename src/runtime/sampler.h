// Draws tokens from logits; knows nothing of text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_RUNTIME_SAMPLER_H_
#define OPST_RUNTIME_SAMPLER_H_

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "opst/sampling.h"

namespace opst {

// One per generated text: the state of its random numbers and penalties.
class Sampler {
 public:
  // Throws kInvalidArgument for an option out of its range, naming it: temperature and top_k not
  // negative, top_p in (0, 1], min_p in [0, 1], a repetition penalty above 0, other penalties
  // finite, bias of a token in 0 … vocab_size-1 that is not NaN or +inf.
  Sampler(const SamplingOptions& options, int64_t vocab_size);

  // Tokens that the repetition penalty counts before any is drawn.
  void SetPrompt(std::span<const int32_t> tokens);

  // Draws a token and remembers it for the penalties. Changes the logits as the options say.
  // Throws kInvalidArgument when no logit is a number above -inf: the model's output is broken, or
  // the bias bans everything.
  int32_t Next(std::span<float> logits);

 private:
  struct Candidate {
    float logit;
    double power;  // e^((logit - max) / temperature)
    int32_t token;
  };

  static bool IsBefore(const Candidate& a, const Candidate& b);
  void Adjust(std::span<float> logits) const;
  int32_t Choose(std::span<const float> logits);
  void Candidates(std::span<const float> logits, float max);
  size_t KeepMostLikely();
  double NextUniform();

  SamplingOptions options_;
  std::mt19937_64 random_;
  std::map<int32_t, int64_t> counts_;  // of tokens seen: times drawn, 0 = in the prompt only
  std::vector<Candidate> candidates_;
};

}  // namespace opst

#endif  // OPST_RUNTIME_SAMPLER_H_
