// Appends the ids of every plan it is shown.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/expert_usage.h"

#include <algorithm>

namespace opst {

size_t ExpertUsage::IndexOf(int64_t layer) {
  const auto found = std::find(layers_.begin(), layers_.end(), layer);
  if (found != layers_.end()) return static_cast<size_t>(found - layers_.begin());
  layers_.push_back(layer);
  ids_.emplace_back();
  return layers_.size() - 1;
}

void ExpertUsage::Add(int64_t layer, const RoutingPlan& plan) {
  num_experts_ = plan.num_experts;
  top_k_ = plan.top_k;
  std::vector<int32_t>& ids = ids_[IndexOf(layer)];
  ids.insert(ids.end(), plan.expert_ids.begin(), plan.expert_ids.end());
}

int64_t ExpertUsage::num_tokens(size_t layer_index) const {
  return top_k_ == 0 ? 0 : static_cast<int64_t>(ids_[layer_index].size()) / top_k_;
}

std::vector<int32_t> ExpertUsage::ExpertsOf(size_t layer_index, int64_t token) const {
  const auto begin = ids_[layer_index].begin() + token * top_k_;
  return {begin, begin + top_k_};
}

std::vector<int64_t> ExpertUsage::Counts(size_t layer_index) const {
  std::vector<int64_t> counts(static_cast<size_t>(num_experts_), 0);
  for (const int32_t expert : ids_[layer_index]) {
    if (expert >= 0) ++counts[static_cast<size_t>(expert)];
  }
  return counts;
}

}  // namespace opst
