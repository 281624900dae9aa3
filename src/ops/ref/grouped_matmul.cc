// Grouped matmul in three loops.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/ref/activate.h"
#include "ops/ref/element.h"
#include "ops/ref/reference.h"

namespace opst::ref {

void GroupedMatmul(const Context&, const GroupedMatmulRequest& request) {
  const PackedWeights& weights = *request.weights;
  for (int64_t group = 0; group < request.num_groups(); ++group) {
    const auto index = static_cast<size_t>(group);
    const int64_t expert = request.expert(group);
    const float* bias = request.bias(group);
    for (int64_t row = request.group_offsets[index]; row < request.group_offsets[index + 1];
         ++row) {
      for (int64_t column = 0; column < weights.layout().out; ++column) {
        float sum = 0;
        for (int64_t k = 0; k < weights.layout().in; ++k) {
          sum = std::fma(Load(request.x, row, k), weights.At(expert, column, k), sum);
        }
        if (bias != nullptr) sum += bias[column];
        const auto& activation = request.options->activation;
        if (activation) sum = Activate(*activation, {}, static_cast<double>(sum));
        if (request.options->output_mode == OutputMode::kAdd) {
          sum += Load(request.out, row, column);
        }
        Store(request.out, row, column, sum);
      }
    }
  }
}

}  // namespace opst::ref
