// The losses of the router and their gradients, in double, token by token.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/loss/router_loss_request.h"

namespace opst::ref {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One token: p, the slope of each p's own logit, and ln Σ e^x. Without p, no loss knows of it.
struct Token {
  int64_t index = 0;
  std::vector<double> p;
  std::vector<double> slopes;  // p_j times this times (d_j - Σ d p) is the gradient
  double log_sum = 0;
};

Token ReadToken(const RouterLossRequest& request, int64_t index) {
  Token token;
  token.index = index;
  const auto* row = reinterpret_cast<const float*>(request.values.row(index));
  std::vector<double> values(row, row + request.values.dim(1));
  for (double& value : values) value = std::isnan(value) ? -kInfinity : value;
  const double max = *std::max_element(values.begin(), values.end());
  const RouterValues kind = request.options.values;
  const bool holds_probabilities = kind == RouterValues::kProbabilities;
  if (request.is_padding(index) || max == -kInfinity || (holds_probabilities && max <= 0)) {
    return token;
  }
  double sum = 0;
  for (const double value : values) {
    double p = std::max(value, 0.0);
    double slope = value > -kInfinity ? 1 : 0;
    if (kind == RouterValues::kSigmoidLogits) {
      p = 1 / (1 + std::exp(-value));
      slope = 1 / (1 + std::exp(value));
    } else if (!holds_probabilities) {
      p = max == kInfinity ? (value == kInfinity ? 1 : 0) : std::exp(value - max);
      slope = max == kInfinity ? 0 : 1;
    }
    token.p.push_back(p);
    token.slopes.push_back(slope);
    sum += p;
  }
  token.log_sum = max + std::log(sum);
  for (double& p : token.p) p = holds_probabilities ? p : p / sum;
  return token;
}

// f of the balance loss over these tokens.
std::vector<double> Fractions(const RouterLossRequest& request, const std::vector<Token>& tokens) {
  std::vector<double> fractions(tokens[0].p.size(), 0.0);
  const bool only_first = request.options.count == BalanceCount::kFirstChoice;
  double num_choices = 0;
  for (const Token& token : tokens) {
    const auto* ids = reinterpret_cast<const int32_t*>(request.expert_ids.row(token.index));
    for (int64_t rank = 0; rank < request.expert_ids.dim(1); ++rank) {
      if (ids[rank] < 0 || (only_first && rank > 0)) continue;
      fractions[static_cast<size_t>(ids[rank])] += 1;
      num_choices += 1;
    }
  }
  const bool is_per_token = request.options.count == BalanceCount::kPerToken;
  const double divisor =
      is_per_token ? static_cast<double>(tokens.size()) : std::max(num_choices, 1.0);
  for (double& fraction : fractions) fraction /= divisor;
  return fractions;
}

// The loss of one segment, and what it says about p of each of its tokens (or, kZ, nothing).
double SegmentLoss(const RouterLossRequest& request, const std::vector<Token>& tokens,
                   std::vector<double>& d_p) {
  const auto num_tokens = static_cast<double>(tokens.size());
  const auto num_experts = static_cast<double>(tokens[0].p.size());
  const auto coefficient = static_cast<double>(request.options.coefficient);
  std::vector<double> sums(tokens[0].p.size(), 0.0);
  double squares = 0;
  for (const Token& token : tokens) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += token.p[i];
    squares += token.log_sum * token.log_sum;
  }
  d_p.assign(sums.size(), 0.0);
  double loss = 0;
  if (request.kind == RouterLossKind::kZ) return coefficient * squares / num_tokens;
  if (request.kind == RouterLossKind::kBalance) {
    const std::vector<double> fractions = Fractions(request, tokens);
    for (size_t i = 0; i < sums.size(); ++i) {
      loss += coefficient * num_experts * fractions[i] * sums[i] / num_tokens;
      d_p[i] = coefficient * num_experts * fractions[i] / num_tokens;
    }
    return loss;
  }
  double mean = 0;
  double variance = 0;
  for (const double sum : sums) mean += sum / num_experts;
  for (const double sum : sums) variance += (sum - mean) * (sum - mean) / num_experts;
  for (size_t i = 0; i < sums.size(); ++i) {
    d_p[i] = coefficient * 2 *
             ((sums[i] - mean) / (mean * mean) - variance / (mean * mean * mean)) / num_experts;
  }
  return coefficient * variance / (mean * mean);
}

void AddGradient(const RouterLossRequest& request, const Token& token,
                 const std::vector<double>& d_p, double share, double z_factor) {
  auto* d_values = reinterpret_cast<float*>(request.d_values.mutable_row(token.index));
  double mean = 0;
  for (size_t i = 0; i < d_p.size(); ++i) mean += d_p[i] * token.p[i];
  for (size_t i = 0; i < d_p.size(); ++i) {
    double gradient = token.p[i] * (d_p[i] - mean);
    if (request.options.values == RouterValues::kProbabilities) gradient = d_p[i];
    if (request.kind == RouterLossKind::kZ) {
      gradient = token.p[i] > 0 ? z_factor * token.log_sum * token.p[i] : 0;
    } else {
      gradient *= token.slopes[i];
    }
    d_values[i] =
        static_cast<float>(static_cast<double>(d_values[i]) + request.d_loss * share * gradient);
  }
}

}  // namespace

void RouterLoss(const Context&, const RouterLossRequest& request) {
  std::vector<std::vector<Token>> segments;
  for (int64_t index = 0; index < request.num_tokens(); ++index) {
    if (index % request.segment_tokens() == 0) segments.emplace_back();
    Token token = ReadToken(request, index);
    if (!token.p.empty()) segments.back().push_back(std::move(token));
  }
  std::erase_if(segments, [](const std::vector<Token>& tokens) { return tokens.empty(); });
  const double share = 1 / static_cast<double>(std::max<size_t>(segments.size(), 1));
  if (request.loss != nullptr) *request.loss = 0;
  for (const std::vector<Token>& tokens : segments) {
    std::vector<double> d_p;
    const double loss = SegmentLoss(request, tokens, d_p);
    if (request.loss != nullptr) {
      *request.loss += loss * share;
      continue;
    }
    const double z_factor =
        2 * static_cast<double>(request.options.coefficient) / static_cast<double>(tokens.size());
    for (const Token& token : tokens) AddGradient(request, token, d_p, share, z_factor);
  }
}

}  // namespace opst::ref
