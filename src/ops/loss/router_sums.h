// What the losses of the router need to know of a batch: sums over tokens, made by all workers in a
// fixed order. Internal.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_LOSS_ROUTER_SUMS_H_
#define OPST_OPS_LOSS_ROUTER_SUMS_H_

#include <cstdint>
#include <vector>

#include "ops/loss/router_loss_request.h"

namespace opst {

// p of one token, and what its gradient takes besides.
struct RouterRow {
  explicit RouterRow(size_t num_experts)
      : clean(num_experts), probabilities(num_experts), complements(num_experts) {}
  // Reads row `token`. Returns whether the losses know of it.
  bool Read(const RouterLossRequest& request, int64_t token);

  std::vector<float> clean;          // [E] values without NaN
  std::vector<float> probabilities;  // [E]
  std::vector<float> complements;    // [E] 1 - s of kSigmoidLogits
  float max = 0;                     // of clean
  // ln Σ e^value of kSoftmaxLogits.
  double LogSum() const;
};

// Sums over the tokens of one segment that the losses know of.
struct RouterSums {
  std::vector<double> probabilities;  // [E]
  std::vector<int64_t> counts;        // [E] choices, by BalanceCount
  double squared_log_sums = 0;        // of kZ
  int64_t num_rows = 0;
};

// [segments]. The same bits for any number of threads.
std::vector<RouterSums> SumRows(const Context& context, const RouterLossRequest& request);

}  // namespace opst

#endif  // OPST_OPS_LOSS_ROUTER_SUMS_H_
