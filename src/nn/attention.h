// Grouped-query attention over a KV cache, token by token; projections and norms are elsewhere.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_NN_ATTENTION_H_
#define OPST_NN_ATTENTION_H_

#include <cstdint>
#include <span>

#include "nn/kv_cache.h"
#include "opst/context.h"
#include "opst/tensor.h"

namespace opst {

struct AttendOptions {
  int64_t num_heads = 1;              // of queries; consecutive ones share a cached head
  float scale = 1;                    // multiplies q · k
  int64_t window = 0;                 // positions a token sees, itself included; 0 = all before it
  std::span<const float> sinks = {};  // [num_heads] scores without a value, or empty
};

// out[t] = softmax(scale · q[t] Kᵀ) V over the cached positions first_position + t and before. With
// sinks, a head's sink takes part in the softmax as one more score, and its weight is dropped.
//   queries  [T, num_heads · key_dim] f32, rotated; rows may be strided
//   cache    holds keys and values of all these positions already
//   out      [T, num_heads · value_dim] f32
// Positions are walked in ascending order in blocks fixed by absolute position, so a token's bits
// do not depend on how its prompt was cut into chunks. Threads: one task per (token, cached head).
void Attend(const Context& context, ConstTensorView queries, int64_t first_position,
            const AttendOptions& options, const KvCache::Layer& cache, TensorView out);

}  // namespace opst

#endif  // OPST_NN_ATTENTION_H_
