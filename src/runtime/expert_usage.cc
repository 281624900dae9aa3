// Appends the ids of every plan it is shown.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/expert_usage.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace opst {

size_t ExpertUsage::IndexOf(int64_t layer) {
  const auto found = std::find(layers_.begin(), layers_.end(), layer);
  if (found != layers_.end()) return static_cast<size_t>(found - layers_.begin());
  layers_.push_back(layer);
  top_k_.push_back(0);
  ids_.emplace_back();
  weight_sums_.emplace_back();
  return layers_.size() - 1;
}

void ExpertUsage::Add(int64_t layer, const RoutingPlan& plan) {
  num_experts_ = plan.num_experts;
  const size_t index = IndexOf(layer);
  top_k_[index] = plan.top_k;
  ids_[index].insert(ids_[index].end(), plan.expert_ids.begin(), plan.expert_ids.end());
  std::vector<double>& sums = weight_sums_[index];
  sums.resize(static_cast<size_t>(plan.num_experts), 0);
  for (size_t slot = 0; slot < plan.expert_ids.size(); ++slot) {
    if (plan.expert_ids[slot] < 0) continue;
    sums[static_cast<size_t>(plan.expert_ids[slot])] +=
        static_cast<double>(plan.expert_weights[slot]);
  }
}

int64_t ExpertUsage::num_tokens(size_t layer_index) const {
  return static_cast<int64_t>(ids_[layer_index].size()) / top_k_[layer_index];
}

std::vector<int32_t> ExpertUsage::ExpertsOf(size_t layer_index, int64_t token) const {
  const auto begin = ids_[layer_index].begin() + token * top_k_[layer_index];
  return {begin, begin + top_k_[layer_index]};
}

std::vector<int64_t> ExpertUsage::Counts(size_t layer_index) const {
  std::vector<int64_t> counts(static_cast<size_t>(num_experts_), 0);
  for (const int32_t expert : ids_[layer_index]) {
    if (expert >= 0) ++counts[static_cast<size_t>(expert)];
  }
  return counts;
}

std::string ExpertUsage::ToJson() const {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::vector<int64_t> counts = Counts(i);
    int64_t rows = 0;
    for (const int64_t count : counts) rows += count;
    const int64_t busiest = *std::max_element(counts.begin(), counts.end());
    const double mean = static_cast<double>(rows) / static_cast<double>(num_experts_);
    layers.push_back({{"layer", layers_[i]},
                      {"top_k", top_k_[i]},
                      {"num_tokens", num_tokens(i)},
                      {"counts", counts},
                      {"weight_sums", weight_sums_[i]},
                      {"max_over_mean", rows == 0 ? 0 : static_cast<double>(busiest) / mean}});
  }
  return nlohmann::ordered_json{{"num_experts", num_experts_}, {"layers", layers}}.dump(1);
}

}  // namespace opst
