// Looks experts up by token id, in a table or by a hash. One implementation: it reads memory.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/hash_routing.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "hash_routing";

// SplitMix64: the next value of a generator that stands at `state`.
uint64_t Next(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Draws k of E experts without repetition: the r-th of those not drawn yet, ids ascending.
void DrawExperts(uint64_t seed, int32_t token_id, int64_t num_experts, std::span<int32_t> ids) {
  uint64_t state = seed;
  state = Next(state) + static_cast<uint64_t>(token_id);
  std::vector<int32_t> taken;  // ascending
  for (size_t j = 0; j < ids.size(); ++j) {
    // The upper half of the product is even enough: its error is below E / 2^32.
    const uint64_t range = static_cast<uint64_t>(num_experts) - j;
    auto id = static_cast<int32_t>(((Next(state) >> 32) * range) >> 32);
    for (const int32_t earlier : taken) {
      if (earlier <= id) ++id;
    }
    ids[j] = id;
    taken.insert(std::upper_bound(taken.begin(), taken.end(), id), id);
  }
}

void CheckTable(const HashRoutingOptions& options) {
  const auto top_k = static_cast<size_t>(options.top_k);
  OPST_CHECK_ARG(options.table.size() % top_k == 0, kOp, "the table must have top_k ids per token",
                 options.table.size(), " for top_k ", top_k);
  for (size_t i = 0; i < options.table.size(); ++i) {
    const int32_t expert = options.table[i];
    OPST_CHECK_ARG(expert >= 0 && expert < options.num_experts, kOp,
                   Concat("experts of the table must be 0..", options.num_experts - 1), expert,
                   " at [", i / top_k, ",", i % top_k, "]");
    const auto row = options.table.begin() + static_cast<std::ptrdiff_t>(i - i % top_k);
    const auto here = options.table.begin() + static_cast<std::ptrdiff_t>(i);
    OPST_CHECK_ARG(std::find(row, here, expert) == here, kOp, "experts of a token must be distinct",
                   expert, " twice for token ", i / top_k);
  }
}

}  // namespace

RoutingPlan RouteByHash(const Context& context, ConstTensorView token_ids,
                        const HashRoutingOptions& options, const RoutingPlanOptions& plan_options) {
  OPST_CHECK_ARG(
      token_ids.rank() == 1 && token_ids.dtype() == DType::kI32 && token_ids.is_contiguous(), kOp,
      "token_ids must be contiguous [T] i32", token_ids.ToString());
  OPST_CHECK_ARG(options.top_k >= 1 && options.top_k <= options.num_experts &&
                     options.num_experts <= std::numeric_limits<int32_t>::max(),
                 kOp, "top_k must be between 1 and the number of experts, below 2^31", "top_k ",
                 options.top_k, " of ", options.num_experts, " experts");
  CheckTable(options);
  const int64_t num_tokens = token_ids.dim(0);
  OPST_CHECK_ARG(num_tokens <= std::numeric_limits<int32_t>::max() / options.top_k, kOp,
                 "T·k must be below 2^31", num_tokens, " tokens, top_k ", options.top_k);
  const auto top_k = static_cast<size_t>(options.top_k);
  const auto table_rows = static_cast<int64_t>(options.table.size() / top_k);
  std::vector<int32_t> ids(static_cast<size_t>(num_tokens) * top_k, -1);
  for (int64_t token = 0; token < num_tokens; ++token) {
    const int32_t id = token_ids.as<int32_t>()[token];
    const bool is_known = id >= -1 && (options.table.empty() || id < table_rows);
    OPST_CHECK_ARG(is_known, kOp, "token ids must be -1 or stand in the table", id, " at [", token,
                   "] for ", table_rows, " rows");
    if (id == -1) continue;
    const std::span<int32_t> row(&ids[static_cast<size_t>(token) * top_k], top_k);
    if (options.table.empty()) {
      DrawExperts(options.seed, id, options.num_experts, row);
    } else {
      std::copy_n(options.table.begin() + static_cast<std::ptrdiff_t>(id) * options.top_k, top_k,
                  row.begin());
    }
  }
  std::vector<float> weights(ids.size(), 1.0f / static_cast<float>(top_k));
  return BuildRoutingPlan(context, std::move(ids), std::move(weights), options.top_k,
                          options.num_experts, plan_options);
}

}  // namespace opst
