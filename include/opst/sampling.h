// SamplingOptions: how the next token is drawn from a model's logits. Data only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_SAMPLING_H_
#define OPST_SAMPLING_H_

#include <cstdint>
#include <vector>

namespace opst {

// Added to the logit of one token; -inf bans it.
struct LogitBias {
  int32_t token = 0;
  float bias = 0;
};

// The steps, in this order; those at their default do nothing:
// clang-format off
//   logit bias
//   repetition penalty r   of tokens in the prompt or the text: x > 0 becomes x / r, else x · r
//   presence, frequency    of tokens in the text so far, n times: x - presence - frequency · n
//   temperature            x / temperature; 0 ends here with the highest logit, ties to the lower id
//   top-k                  keeps the k most likely, ties to the lower id
//   top-p                  keeps the fewest most likely ones whose probabilities reach p
//   min-p                  keeps those at least min_p times as likely as the most likely one
//   one draw
// clang-format on
// Checked where they are used: temperature and top_k not negative, top_p in (0, 1], min_p in
// [0, 1], repetition_penalty above 0, all of them finite, bias of tokens that the vocabulary has
// and neither NaN nor +inf; anything else is kInvalidArgument.
struct SamplingOptions {
  float temperature = 0;
  int64_t top_k = 0;  // 0 = all
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<LogitBias> logit_bias = {};
  uint64_t seed = 0;  // the same seed gives the same text, for any number of threads
};

}  // namespace opst

#endif  // OPST_SAMPLING_H_
