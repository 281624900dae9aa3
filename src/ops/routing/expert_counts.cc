// Counts rows per expert, sums counts, and orders rows of several ranks by expert.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/expert_counts.h"

#include <limits>

#include "base/check.h"

namespace opst {
namespace {

int64_t CountAt(ConstTensorView counts, int64_t rank, int64_t expert) {
  const std::byte* row = counts.row(rank);
  return counts.dtype() == DType::kI32 ? reinterpret_cast<const int32_t*>(row)[expert]
                                       : reinterpret_cast<const int64_t*>(row)[expert];
}

}  // namespace

std::vector<int64_t> CountExperts(ConstTensorView expert_ids, int64_t num_experts) {
  constexpr std::string_view kOp = "count_experts";
  OPST_CHECK_ARG(num_experts > 0, kOp, "num_experts must be positive", num_experts);
  OPST_CHECK_ARG(expert_ids.dtype() == DType::kI32 && expert_ids.is_contiguous(), kOp,
                 "expert_ids must be contiguous i32", expert_ids.ToString());
  std::vector<int64_t> counts(static_cast<size_t>(num_experts), 0);
  const auto* ids = expert_ids.as<int32_t>();
  const int64_t num_ids = expert_ids.rank() == 0 ? 0 : expert_ids.shape().num_elements();
  for (int64_t i = 0; i < num_ids; ++i) {
    if (ids[i] == -1) continue;
    OPST_CHECK_ARG(ids[i] >= 0 && ids[i] < num_experts, kOp,
                   Concat("expert ids must be -1 or 0..", num_experts - 1), "invalid expert index ",
                   ids[i], " at [", i, "]");
    ++counts[static_cast<size_t>(ids[i])];
  }
  return counts;
}

std::vector<int64_t> RunningSums(std::span<const int64_t> counts) {
  constexpr std::string_view kOp = "running_sums";
  std::vector<int64_t> sums;
  sums.reserve(counts.size());
  int64_t sum = 0;
  for (const int64_t count : counts) {
    OPST_CHECK_ARG(count >= 0 && count <= std::numeric_limits<int64_t>::max() - sum, kOp,
                   "counts must not be negative and their sum below 2^63", "count ", count, " at [",
                   sums.size(), "]");
    sum += count;
    sums.push_back(sum);
  }
  return sums;
}

std::vector<std::pair<int64_t, int64_t>> NonEmptyExperts(std::span<const int64_t> counts) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    if (counts[expert] > 0) pairs.emplace_back(static_cast<int64_t>(expert), counts[expert]);
  }
  return pairs;
}

ReRouting BuildReRouting(ConstTensorView counts) {
  constexpr std::string_view kOp = "re_routing";
  constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max();
  OPST_CHECK_ARG(
      counts.rank() == 2 && (counts.dtype() == DType::kI32 || counts.dtype() == DType::kI64), kOp,
      "counts must be [P,E] i32 or i64", counts.ToString());
  // First row of every (rank, expert) as they arrive.
  std::vector<int64_t> starts;
  int64_t num_rows = 0;
  for (int64_t rank = 0; rank < counts.dim(0); ++rank) {
    for (int64_t expert = 0; expert < counts.dim(1); ++expert) {
      const int64_t count = CountAt(counts, rank, expert);
      OPST_CHECK_ARG(count >= 0 && count <= kMaxRows - num_rows, kOp,
                     "counts must not be negative and their sum below 2^31", "count ", count,
                     " at [", rank, ",", expert, "]");
      starts.push_back(num_rows);
      num_rows += count;
    }
  }
  ReRouting result;
  result.row_sources.reserve(static_cast<size_t>(num_rows));
  result.expert_counts.assign(static_cast<size_t>(counts.dim(1)), 0);
  for (int64_t expert = 0; expert < counts.dim(1); ++expert) {
    for (int64_t rank = 0; rank < counts.dim(0); ++rank) {
      const int64_t start = starts[static_cast<size_t>(rank * counts.dim(1) + expert)];
      const int64_t count = CountAt(counts, rank, expert);
      for (int64_t i = 0; i < count; ++i) {
        result.row_sources.push_back(static_cast<int32_t>(start + i));
      }
      result.expert_counts[static_cast<size_t>(expert)] += count;
    }
  }
  return result;
}

}  // namespace opst
