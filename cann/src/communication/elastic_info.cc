// Tables of ranks, checked, and the smaller placement.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/communication/elastic_info.h"

#include <algorithm>

namespace opst::cann {
namespace {

constexpr int64_t kHead = 4;

}  // namespace

void CheckElasticInfo(const Call& call, Index info, int64_t size) {
  call.ShapeIs(info, {kHead + 2 * size});
}

void CheckElasticInfo(const Call& call, Index info, const Placement& placement) {
  CheckElasticInfo(call, info, placement.ranks);
  call.Shape(info == kAbsent || placement.tp == nullptr,
             "elasticInfo must be null with tensor parallel ranks", "a tensor");
}

ElasticInfo ReadElasticInfo(const Run& run, Index info, int64_t size) {
  ElasticInfo elastic;
  if (info == kAbsent) return elastic;
  const std::vector<int64_t> values = run.Ints(info);
  run.Value(values[0] == 0 || values[0] == 1, "elasticInfo must begin with 0 or 1", values[0]);
  elastic.is_smaller = values[0] == 1;
  if (!elastic.is_smaller) return elastic;
  const int64_t left = values[1];
  run.Value(left >= 1 && left <= size, "elasticInfo must leave 1 or more of the ranks", left,
            " of ", size);
  elastic.shared_ranks = values[2];
  elastic.moe_experts = values[3];
  for (int64_t i = 0; i < size; ++i) {
    const int64_t rank = values[static_cast<size_t>(kHead + i)];
    run.Value(rank >= -1 && rank < left, "elasticInfo must have a new rank or -1 for each rank",
              rank, " for rank ", i);
    elastic.new_ranks.push_back(static_cast<int32_t>(rank));
  }
  for (int64_t i = 0; i < left; ++i) {
    const int64_t rank = values[static_cast<size_t>(kHead + size + i)];
    run.Value(rank >= 0 && rank < size && elastic.new_ranks[static_cast<size_t>(rank)] == i,
              "the tables of elasticInfo must be each other's inverse", rank, " for new rank ", i);
    elastic.old_ranks.push_back(static_cast<int32_t>(rank));
  }
  const auto stay = std::count_if(elastic.new_ranks.begin(), elastic.new_ranks.end(),
                                  [](int32_t rank) { return rank >= 0; });
  run.Value(stay == left, "the tables of elasticInfo must be each other's inverse", stay,
            " ranks that stay, not ", left);
  return elastic;
}

Placement PlacementNow(const Run& run, Index info, const Placement& planned) {
  const ElasticInfo elastic = ReadElasticInfo(run, info, planned.ranks);
  if (!elastic.is_smaller) return planned;
  Placement now = planned;
  now.ranks = static_cast<int64_t>(elastic.old_ranks.size());
  now.rank = elastic.new_ranks[static_cast<size_t>(planned.rank)];
  run.Value(now.rank >= 0, "a rank that has left must not take part", planned.rank);
  now.shared_ranks = elastic.shared_ranks;
  now.moe_experts = elastic.moe_experts;
  const int64_t shared_experts =
      planned.shared_ranks == 0 ? 0 : planned.shared_ranks / planned.ranks_per_shared;
  const bool divides = shared_experts == 0 ? now.shared_ranks == 0
                                           : now.shared_ranks >= shared_experts &&
                                                 now.shared_ranks % shared_experts == 0;
  run.Value(divides && now.shared_ranks < now.ranks,
            "elasticInfo must leave ranks for shared experts and for others", now.shared_ranks,
            " of ", now.ranks);
  run.Value(now.moe_experts == planned.local_experts * (now.ranks - now.shared_ranks),
            "every rank must keep its number of experts", now.moe_experts, " on ",
            now.ranks - now.shared_ranks);
  run.Value(now.is_shared(now.rank) == planned.is_shared(planned.rank),
            "a rank must keep its kind of experts", now.rank, " of ", now.ranks);
  now.ranks_per_shared = shared_experts == 0 ? 0 : now.shared_ranks / shared_experts;
  now.all_experts = planned.all_experts - planned.moe_experts + now.moe_experts;
  now.ep = planned.ep->Among(elastic.old_ranks);
  return now;
}

}  // namespace opst::cann
