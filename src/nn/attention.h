// Grouped-query attention over a KV cache, token by token; projections and norms are elsewhere.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_NN_ATTENTION_H_
#define OPST_NN_ATTENTION_H_

#include <cstdint>

#include "nn/kv_cache.h"
#include "opst/attention_recipe.h"
#include "opst/context.h"
#include "opst/tensor.h"

namespace opst {

// out[t] = softmax(q[t] Kᵀ / √head_dim) V over the cached positions first_position + t and before.
//   queries  [T, num_heads · head_dim] f32, rotated; rows may be strided
//   cache    holds keys and values of all these positions already
//   out      [T, num_heads · head_dim] f32
// Positions are walked in ascending order in blocks fixed by absolute position, so a token's bits
// do not depend on how its prompt was cut into chunks. Threads: one task per (token, KV head).
void Attend(const Context& context, ConstTensorView queries, int64_t first_position,
            const AttentionRecipe& recipe, const KvCache::Layer& cache, TensorView out);

}  // namespace opst

#endif  // OPST_NN_ATTENTION_H_
