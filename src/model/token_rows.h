// Loops of the decoder over the tokens of a chunk: norms, biases and sums of rows. No products.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_TOKEN_ROWS_H_
#define OPST_MODEL_TOKEN_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "opst/context.h"
#include "opst/model_config.h"
#include "opst/tensor.h"

namespace opst {

struct NormWeights {
  std::vector<float> weight;  // [H]
  std::vector<float> bias;    // [H], empty for RMS norms
};

// Row of a view of f32.
inline float* FloatRow(const TensorView& x, int64_t row) {
  return reinterpret_cast<float*>(x.mutable_row(row));
}

// Calls body(token) for every token, over the workers.
void ForTokens(const Context& context, int64_t num_tokens, FunctionRef<void(int64_t token)> body);

// out[t] = norm(x[t]); in place allowed.
void NormRows(const Context& context, const NormWeights& norm, float eps, TensorView x,
              TensorView out);

// x[t] += bias, which may be empty.
void AddBias(const Context& context, std::span<const float> bias, TensorView x);

}  // namespace opst

#endif  // OPST_MODEL_TOKEN_ROWS_H_
