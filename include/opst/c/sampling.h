// opst_sampling_options: how the next token is drawn from a model's logits. Data only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_SAMPLING_H_
#define OPST_C_SAMPLING_H_

#include "opst/c/status.h"

// Added to the logit of one token; -INFINITY bans it.
typedef struct opst_logit_bias {
  int32_t token;
  float bias;
} opst_logit_bias;

// The steps and their order: opst/sampling.h.
typedef struct opst_sampling_options {
  uint32_t struct_size;
  float temperature;  // 0 = the most likely token
  int64_t top_k;      // 0 = all
  float top_p;
  float min_p;
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  uint32_t reserved;
  const opst_logit_bias* logit_bias;  // [num_logit_bias]
  int64_t num_logit_bias;
  uint64_t seed;  // the same seed gives the same text
} opst_sampling_options;

#define OPST_SAMPLING_OPTIONS_DEFAULT                                                       \
  {                                                                                         \
    .struct_size = sizeof(opst_sampling_options), .temperature = 0, .top_k = 0, .top_p = 1, \
    .min_p = 0, .repetition_penalty = 1, .presence_penalty = 0, .frequency_penalty = 0,     \
    .reserved = 0, .logit_bias = NULL, .num_logit_bias = 0, .seed = 0                       \
  }

#endif  // OPST_C_SAMPLING_H_
