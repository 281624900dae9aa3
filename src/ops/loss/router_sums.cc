// Rows are read by vector kernels; every worker sums pieces of a fixed length, which are then added
// in order.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/loss/router_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "kernels/gating.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Pieces of a long batch: enough for any team to share, few enough that their sums stay small.
constexpr int64_t kMaxPieces = 256;
constexpr int64_t kMinPieceTokens = 64;

void ShareAmongInfinite(const std::vector<float>& values, std::vector<float>& shares) {
  const auto count = std::count(values.begin(), values.end(), kInfinity);
  const float share = 1.0f / static_cast<float>(count);
  std::transform(values.begin(), values.end(), shares.begin(),
                 [&](float value) { return value == kInfinity ? share : 0.0f; });
}

struct Piece {
  int64_t segment;
  int64_t begin;
  int64_t end;
};

std::vector<Piece> CutIntoPieces(const RouterLossRequest& request) {
  const int64_t tokens = std::max(kMinPieceTokens, request.num_tokens() / kMaxPieces + 1);
  std::vector<Piece> pieces;
  for (int64_t segment = 0; segment < request.num_segments(); ++segment) {
    const int64_t first = segment * request.segment_tokens();
    const int64_t end = std::min(first + request.segment_tokens(), request.num_tokens());
    for (int64_t begin = first; begin < end; begin += tokens) {
      pieces.push_back({segment, begin, std::min(begin + tokens, end)});
    }
  }
  return pieces;
}

void AddRow(const RouterLossRequest& request, int64_t token, const RouterRow& row,
            RouterSums& sums) {
  ++sums.num_rows;
  if (request.kind == RouterLossKind::kZ) {
    const double log_sum = row.LogSum();
    sums.squared_log_sums += log_sum * log_sum;
    return;
  }
  for (size_t expert = 0; expert < row.probabilities.size(); ++expert) {
    sums.probabilities[expert] += static_cast<double>(row.probabilities[expert]);
  }
  if (request.kind != RouterLossKind::kBalance) return;
  const auto* ids = reinterpret_cast<const int32_t*>(request.expert_ids.row(token));
  const bool only_first = request.options.count == BalanceCount::kFirstChoice;
  const int64_t top_k = std::min<int64_t>(request.expert_ids.dim(1),
                                          only_first ? 1 : std::numeric_limits<int64_t>::max());
  for (int64_t rank = 0; rank < top_k; ++rank) {
    if (ids[rank] >= 0) ++sums.counts[static_cast<size_t>(ids[rank])];
  }
}

}  // namespace

double RouterRow::LogSum() const {
  // The largest probability is 1 / Σ e^(value - max).
  const float largest = *std::max_element(probabilities.begin(), probabilities.end());
  return static_cast<double>(max) - std::log(static_cast<double>(largest));
}

bool RouterRow::Read(const RouterLossRequest& request, int64_t token) {
  if (request.is_padding(token)) return false;
  const size_t n = clean.size();
  max = CleanLogits(reinterpret_cast<const float*>(request.values.row(token)), n, clean.data());
  if (max == -kInfinity) return false;
  switch (request.options.values) {
    case RouterValues::kSoftmaxLogits:
      if (max == kInfinity) {
        ShareAmongInfinite(clean, probabilities);
      } else {
        Softmax(clean.data(), n, max, probabilities.data());
      }
      return true;
    case RouterValues::kSigmoidLogits: {
      Sigmoid(clean.data(), n, probabilities.data());
      std::transform(clean.begin(), clean.end(), complements.begin(),
                     [](float value) { return -value; });
      Sigmoid(complements.data(), n, complements.data());
      double sum = 0;
      for (const float score : probabilities) sum += static_cast<double>(score);
      for (float& score : probabilities) {
        score = static_cast<float>(static_cast<double>(score) / sum);
      }
      return sum > 0;
    }
    case RouterValues::kProbabilities:
      std::transform(clean.begin(), clean.end(), probabilities.begin(),
                     [](float value) { return std::max(value, 0.0f); });
      return max > 0;
  }
  return false;
}

std::vector<RouterSums> SumRows(const Context& context, const RouterLossRequest& request) {
  const auto num_experts = static_cast<size_t>(request.values.dim(1));
  const std::vector<Piece> pieces = CutIntoPieces(request);
  const RouterSums nothing{std::vector<double>(num_experts, 0.0),
                           std::vector<int64_t>(num_experts, 0)};
  std::vector<RouterSums> parts(pieces.size(), nothing);
  context.pool().ParallelFor(pieces.size(), [&](size_t index, int) {
    RouterRow row(num_experts);
    for (int64_t token = pieces[index].begin; token < pieces[index].end; ++token) {
      if (row.Read(request, token)) AddRow(request, token, row, parts[index]);
    }
  });
  std::vector<RouterSums> sums(static_cast<size_t>(request.num_segments()), nothing);
  for (size_t index = 0; index < pieces.size(); ++index) {
    RouterSums& sum = sums[static_cast<size_t>(pieces[index].segment)];
    sum.num_rows += parts[index].num_rows;
    sum.squared_log_sums += parts[index].squared_log_sums;
    for (size_t expert = 0; expert < num_experts; ++expert) {
      sum.probabilities[expert] += parts[index].probabilities[expert];
      sum.counts[expert] += parts[index].counts[expert];
    }
  }
  return sums;
}

}  // namespace opst
