// The decoder's row kernels, spread over tokens and workers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/token_rows.h"

#include "kernels/norm.h"

namespace opst {

void ForTokens(const Context& context, int64_t num_tokens, FunctionRef<void(int64_t token)> body) {
  context.pool().ParallelFor(static_cast<size_t>(num_tokens),
                             [&](size_t token, int) { body(static_cast<int64_t>(token)); });
}

void NormRows(const Context& context, const NormWeights& norm, float eps, TensorView x,
              TensorView out) {
  const size_t width = norm.weight.size();
  ForTokens(context, x.dim(0), [&](int64_t token) {
    const float* row = FloatRow(x, token);
    if (norm.bias.empty()) {
      RmsNorm(row, norm.weight.data(), width, eps, FloatRow(out, token));
    } else {
      LayerNorm(row, norm.weight.data(), norm.bias.data(), width, eps, FloatRow(out, token));
    }
  });
}

void AddBias(const Context& context, std::span<const float> bias, TensorView x) {
  if (bias.empty()) return;
  ForTokens(context, x.dim(0),
            [&](int64_t token) { AddTo(bias.data(), bias.size(), FloatRow(x, token)); });
}

}  // namespace opst
