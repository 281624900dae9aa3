// What callers change in the routing of a model: from names of experts to masks of one layer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <vector>

#include "base/check.h"
#include "ops/gating/check_options.h"
#include "opst/model.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "experts";

// Marks the named experts of a layer; returns how many names concern it.
int64_t Mark(const std::vector<ExpertName>& names, int64_t layer, std::vector<bool>& marks) {
  int64_t count = 0;
  for (const ExpertName& name : names) {
    if (name.layer != -1 && name.layer != layer) continue;
    marks[static_cast<size_t>(name.expert)] = true;
    ++count;
  }
  return count;
}

void CheckNames(const std::vector<ExpertName>& names, const ModelConfig& config) {
  for (const ExpertName& name : names) {
    OPST_CHECK_ARG(name.expert >= 0 && name.expert < config.routing.num_experts, kWhere,
                   Concat("experts must be 0..", config.routing.num_experts - 1), name.expert);
    OPST_CHECK_ARG(name.layer >= -1 && name.layer < config.num_layers, kWhere,
                   Concat("layers must be 0..", config.num_layers - 1), name.layer);
    OPST_CHECK_ARG(name.layer == -1 || config.is_moe[static_cast<size_t>(name.layer)], kWhere,
                   "a named layer must have experts", "layer ", name.layer, " is dense");
  }
}

}  // namespace

RoutingOverride ExpertChoice::ForLayer(int64_t layer, int64_t num_experts) const {
  RoutingOverride changes{.top_k = active_experts, .selection = selection};
  if (masked.empty() && forced.empty()) return changes;
  std::vector<bool> is_masked(static_cast<size_t>(num_experts), false);
  std::vector<bool> is_forced(static_cast<size_t>(num_experts), false);
  Mark(masked, layer, is_masked);
  const bool forces = Mark(forced, layer, is_forced) > 0;
  for (size_t expert = 0; expert < is_masked.size(); ++expert) {
    if (!is_masked[expert] && (!forces || is_forced[expert])) continue;
    changes.masked_experts.push_back(static_cast<int32_t>(expert));
  }
  return changes;
}

void Model::CheckExperts(const ExpertChoice& experts) const {
  const int64_t num_experts = config().routing.num_experts;
  OPST_CHECK_ARG(experts.active_experts >= 0 && experts.active_experts <= num_experts, kWhere,
                 Concat("active experts must be 1..", num_experts), experts.active_experts);
  if (experts.selection) {
    const RoutingRecipe& routing = config().routing;
    const int64_t top_k = experts.active_experts > 0 ? experts.active_experts : routing.top_k;
    CheckGatingOptions({.top_k = top_k,
                        .score_function = routing.score_function,
                        .selection = *experts.selection,
                        .sparsemixer_epsilon = routing.sparsemixer_epsilon},
                       num_experts);
  }
  if (experts.masked.empty() && experts.forced.empty()) return;
  CheckNames(experts.masked, config());
  CheckNames(experts.forced, config());
  for (int64_t layer = 0; layer < config().num_layers; ++layer) {
    if (!config().is_moe[static_cast<size_t>(layer)]) continue;
    const auto num_masked = experts.ForLayer(layer, num_experts).masked_experts.size();
    OPST_CHECK_ARG(static_cast<int64_t>(num_masked) < num_experts, kWhere,
                   "every layer must keep at least one expert", "none left in layer ", layer);
  }
}

}  // namespace opst
