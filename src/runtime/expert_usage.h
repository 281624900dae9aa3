// ExpertUsage: which experts served which tokens, collected while text is generated.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_RUNTIME_EXPERT_USAGE_H_
#define OPST_RUNTIME_EXPERT_USAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "opst/routing_plan.h"

namespace opst {

// Give Add as GenerateOptions::on_routing. Not thread safe.
class ExpertUsage {
 public:
  void Add(int64_t layer, const RoutingPlan& plan);

  // Layers with experts, in order of first use.
  const std::vector<int64_t>& layers() const { return layers_; }
  int64_t num_experts() const { return num_experts_; }
  // Tokens seen by a layer: prompt tokens, then new ones.
  int64_t num_tokens(size_t layer_index) const;
  // Experts per token in a layer.
  int64_t top_k(size_t layer_index) const { return top_k_[layer_index]; }
  // Experts of one token in one layer, strongest first.
  std::vector<int32_t> ExpertsOf(size_t layer_index, int64_t token) const;
  // Rows that each expert of a layer served, and the sum of their mixing weights.
  std::vector<int64_t> Counts(size_t layer_index) const;
  const std::vector<double>& WeightSums(size_t layer_index) const {
    return weight_sums_[layer_index];
  }

  // {"num_experts": E, "layers": [{"layer": 0, "top_k": k, "num_tokens": T, "counts": [E],
  //  "weight_sums": [E], "max_over_mean": x}]}; x = load of the busiest expert over the mean.
  std::string ToJson() const;

 private:
  size_t IndexOf(int64_t layer);

  int64_t num_experts_ = 0;
  std::vector<int64_t> layers_;
  std::vector<int64_t> top_k_;
  std::vector<std::vector<int32_t>> ids_;         // per layer [tokens, k]
  std::vector<std::vector<double>> weight_sums_;  // per layer [E]
};

}  // namespace opst

#endif  // OPST_RUNTIME_EXPERT_USAGE_H_
