// What a packed model computes and reads per token, from its tensors' shapes alone.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_MODEL_COST_H_
#define OPST_BENCH_MODEL_COST_H_

#include <cstdint>

#include "model/packed_model.h"

namespace opst::bench {

struct ModelCost {
  double layer_flop = 0;      // per token: products of all layers, top_k of the experts
  double head_flop = 0;       // of the logits of one token
  double attention_flop = 0;  // per token and position that it sees: scores and mixture
  double decode_bytes = 0;    // weights read for one token, the head included
};

ModelCost CostOf(const PackedModel& model);

// Of a prompt of n tokens in an empty cache, logits of the last one.
double PrefillFlop(const ModelCost& cost, int64_t num_tokens);

}  // namespace opst::bench

#endif  // OPST_BENCH_MODEL_COST_H_
