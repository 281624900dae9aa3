// Dense and MoE feed-forward layers in plain loops, routing included.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "convert/plain_model.h"

namespace opst {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

double Gate(const FfnRecipe& recipe, double gate, double up) {
  switch (recipe.activation) {
    case Activation::kSilu:
      return gate / (1 + std::exp(-gate)) * up;
    case Activation::kGeluTanh: {
      const double inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate);
      return gate / 2 * (1 + std::tanh(inner)) * up;
    }
    case Activation::kRelu:
      return std::max(gate, 0.0) * up;
    case Activation::kGelu:
      return gate / 2 * std::erfc(-gate / std::sqrt(2.0)) * up;
    case Activation::kQuickGelu:
      return gate / (1 + std::exp(-1.702 * gate)) * up;
    case Activation::kClampedSwiglu: {
      const auto limit = static_cast<double>(recipe.limits.limit);
      const double g = std::min(gate, limit);
      const double u = std::clamp(up, -limit, limit);
      return g / (1 + std::exp(-static_cast<double>(recipe.limits.alpha) * g)) * (u + 1);
    }
  }
  return 0;
}

// The index of the largest value, the lowest of equal ones.
size_t Best(const std::vector<double>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// Takes the experts of all but the best groups out of `values`.
void KeepBestGroups(const RoutingRecipe& recipe, const std::vector<double>& rank_by,
                    std::vector<double>& values) {
  const size_t size = values.size() / static_cast<size_t>(recipe.num_groups);
  std::vector<double> ranks;
  for (size_t begin = 0; begin < values.size(); begin += size) {
    std::vector<double> group(rank_by.begin() + static_cast<std::ptrdiff_t>(begin),
                              rank_by.begin() + static_cast<std::ptrdiff_t>(begin + size));
    std::sort(group.rbegin(), group.rend());
    const bool sums = recipe.group_score == GroupScore::kSumOfTopTwo && size > 1;
    ranks.push_back(sums ? group[0] + group[1] : group[0]);
  }
  std::vector<bool> is_kept(ranks.size(), false);
  for (int64_t i = 0; i < recipe.num_kept_groups; ++i) {
    const size_t best = Best(ranks);
    is_kept[best] = true;
    ranks[best] = kMasked;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!is_kept[i / size]) values[i] = kMasked;
  }
}

std::vector<double> Scores(const RoutingRecipe& recipe, const std::vector<double>& logits) {
  std::vector<double> scores;
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) {
    const bool is_sigmoid = recipe.score_function == ScoreFunction::kSigmoid;
    scores.push_back(is_sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit - max));
    sum += scores.back();
  }
  if (recipe.score_function == ScoreFunction::kSoftmax) {
    for (double& score : scores) score /= sum;
  }
  return scores;
}

// Each choice weighs itself among those close to it, and is gone for the next one.
std::vector<double> Sparsemixer(const RoutingRecipe& recipe, std::vector<double> logits) {
  std::vector<double> shares(logits.size(), 0.0);
  for (int64_t rank = 0; rank < recipe.top_k; ++rank) {
    const size_t best = Best(logits);
    const double top = logits[best];
    double sum = 0;
    for (const double logit : logits) {
      if (logit == kMasked) continue;
      const double distance = (top - logit) / std::max(std::fabs(logit), top);
      if (distance <= 2 * static_cast<double>(recipe.sparsemixer_epsilon)) {
        sum += std::exp(logit - top);
      }
    }
    shares[best] = static_cast<double>(recipe.scale) / sum;
    logits[best] = kMasked;
  }
  return shares;
}

// What every expert's output is multiplied with; 0 for those not chosen.
std::vector<double> Shares(const RoutingRecipe& recipe, const std::vector<double>& logits,
                           const std::vector<double>& bias) {
  if (recipe.score_function == ScoreFunction::kSparsemixer) return Sparsemixer(recipe, logits);
  const std::vector<double> scores = Scores(recipe, logits);
  std::vector<double> biased = scores;
  for (size_t i = 0; i < bias.size(); ++i) biased[i] += bias[i];
  std::vector<double> selection = bias.empty() ? logits : biased;
  KeepBestGroups(recipe, biased, selection);
  std::vector<double> shares(scores.size(), 0.0);
  double sum = 0;
  for (int64_t rank = 0; rank < recipe.top_k; ++rank) {
    const size_t best = Best(selection);
    selection[best] = kMasked;
    shares[best] = scores[best];
    sum += scores[best];
  }
  for (double& share : shares) {
    share *= static_cast<double>(recipe.scale) / (recipe.renormalizes ? sum : 1);
  }
  return shares;
}

}  // namespace

PlainMatrix PlainModel::Gated(const PlainMatrix& x, Role gate_up, Role down, int64_t layer,
                              int64_t index) const {
  const PlainMatrix both = Linear(x, gate_up, layer, index);
  PlainMatrix hidden(x.rows, both.columns / 2);
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t f = 0; f < hidden.columns; ++f) {
      hidden.row(t)[f] = Gate(config_.ffn, both.row(t)[f], both.row(t)[hidden.columns + f]);
    }
  }
  return Linear(hidden, down, layer, index);
}

// out += share · expert(x), for the tokens that chose it.
void PlainModel::AddExpert(const PlainMatrix& x, int64_t layer, int64_t expert,
                           std::span<const double> share, PlainMatrix* out) const {
  PlainMatrix both = Linear(x, Role::kGateUp, layer, expert);
  const std::vector<double> bias = Vector(Role::kGateUpBias, layer);
  PlainMatrix hidden(x.rows, both.columns / 2);
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t n = 0; n < both.columns && !bias.empty(); ++n) {
      both.row(t)[n] += bias[static_cast<size_t>(expert * both.columns + n)];
    }
    for (int64_t f = 0; f < hidden.columns; ++f) {
      hidden.row(t)[f] = Gate(config_.ffn, both.row(t)[f], both.row(t)[hidden.columns + f]);
    }
  }
  const PlainMatrix y = Linear(hidden, Role::kDown, layer, expert);
  const std::vector<double> down_bias = Vector(Role::kDownBias, layer);
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t h = 0; h < y.columns; ++h) {
      const double b =
          down_bias.empty() ? 0 : down_bias[static_cast<size_t>(expert * y.columns + h)];
      out->row(t)[h] += share[static_cast<size_t>(t)] * (y.row(t)[h] + b);
    }
  }
}

void PlainModel::AddShared(const PlainMatrix& x, int64_t layer, PlainMatrix* out) const {
  const PlainMatrix shared = Gated(x, Role::kSharedGateUp, Role::kSharedDown, layer);
  PlainMatrix gate;
  if (config_.ffn.has_shared_gate) gate = Linear(x, Role::kSharedGate, layer);
  for (int64_t t = 0; t < x.rows; ++t) {
    const double share = gate.values.empty() ? 1 : 1 / (1 + std::exp(-gate.row(t)[0]));
    for (int64_t h = 0; h < x.columns; ++h) out->row(t)[h] += share * shared.row(t)[h];
  }
}

PlainMatrix PlainModel::Ffn(const PlainMatrix& x, int64_t layer) const {
  if (!config_.is_moe[static_cast<size_t>(layer)]) {
    return Gated(x, Role::kDenseGateUp, Role::kDenseDown, layer);
  }
  const RoutingRecipe recipe = config_.routing_of(layer);
  PlainMatrix input = x;
  if (recipe.hidden_dim > 0) {
    input = Linear(x, Role::kRouterHidden, layer);
    for (double& value : input.values) value = std::tanh(value);
  }
  const PlainMatrix logits = Linear(input, Role::kRouter, layer, Role::kRouterBias);
  const std::vector<double> bias = Vector(Role::kSelectionBias, layer);
  // share[e][t]
  std::vector<std::vector<double>> share(static_cast<size_t>(recipe.num_experts),
                                         std::vector<double>(static_cast<size_t>(x.rows)));
  for (int64_t t = 0; t < x.rows; ++t) {
    const std::vector<double> row(logits.row(t), logits.row(t) + logits.columns);
    const std::vector<double> shares = Shares(recipe, row, bias);
    for (size_t e = 0; e < shares.size(); ++e) share[e][static_cast<size_t>(t)] = shares[e];
  }
  PlainMatrix out(x.rows, x.columns);
  for (int64_t e = 0; e < recipe.num_experts; ++e) {
    const std::vector<double>& of_expert = share[static_cast<size_t>(e)];
    PlainMatrix chosen(0, x.columns);
    std::vector<double> shares;
    std::vector<int64_t> tokens;
    for (int64_t t = 0; t < x.rows; ++t) {
      if (of_expert[static_cast<size_t>(t)] == 0) continue;
      chosen.values.insert(chosen.values.end(), x.row(t), x.row(t) + x.columns);
      shares.push_back(of_expert[static_cast<size_t>(t)]);
      tokens.push_back(t);
      ++chosen.rows;
    }
    if (tokens.empty()) continue;
    PlainMatrix added(chosen.rows, x.columns);
    AddExpert(chosen, layer, e, shares, &added);
    for (size_t i = 0; i < tokens.size(); ++i) {
      for (int64_t h = 0; h < x.columns; ++h) {
        out.row(tokens[i])[h] += added.row(static_cast<int64_t>(i))[h];
      }
    }
  }
  if (config_.ffn.shared_ffn > 0) AddShared(x, layer, &out);
  return out;
}

}  // namespace opst
