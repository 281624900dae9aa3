// Adds up the tensors of a packed file.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/model_cost.h"

namespace opst::bench {

ModelCost CostOf(const PackedModel& model) {
  const ModelConfig& config = model.config();
  ModelCost cost;
  for (const PackedTensor& tensor : PackedTensors(config)) {
    const auto stored_bytes = static_cast<double>(model.file().At(tensor.name()).num_bytes);
    // The part of the tensor that one token uses: one row, k experts, or all of it.
    double used = 1;
    if (tensor.storage == Storage::kRows) {
      used = 1 / static_cast<double>(tensor.layout.out);
    } else if (tensor.role == Role::kGateUp || tensor.role == Role::kDown) {
      used = static_cast<double>(config.routing.top_k) / static_cast<double>(tensor.num_matrices);
    }
    cost.decode_bytes += used * stored_bytes;
    if (tensor.storage != Storage::kPanels) continue;
    const double flop = 2.0 * static_cast<double>(tensor.layout.out) *
                        static_cast<double>(tensor.layout.in) *
                        static_cast<double>(tensor.num_matrices) * used;
    (tensor.role == Role::kHead ? cost.head_flop : cost.layer_flop) += flop;
  }
  // q·k and p·v of every head, two operations an element each.
  const AttentionRecipe& attention = config.attention;
  cost.attention_flop = 2.0 *
                        static_cast<double>(attention.num_heads * (attention.cached_key_dim() +
                                                                   attention.cached_value_dim())) *
                        static_cast<double>(config.num_layers);
  return cost;
}

double PrefillFlop(const ModelCost& cost, int64_t num_tokens) {
  const auto n = static_cast<double>(num_tokens);
  return n * cost.layer_flop + n * (n + 1) / 2 * cost.attention_flop + cost.head_flop;
}

}  // namespace opst::bench
