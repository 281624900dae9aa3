// Attributes of the dispatch family, checked, and which slots go to which rank.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/communication/placement.h"

#include <algorithm>
#include <cstring>

namespace opst::cann {
namespace {

constexpr int64_t kMaxExperts = 1024;
constexpr size_t kMaxName = 128;

std::shared_ptr<Group> GroupOf(const Call& call, const char* name, int64_t size, int64_t rank) {
  auto group = FindGroup(name);
  call.Shape(group != nullptr, "the group must be that of a communicator (HcclGetCommName)", name);
  call.Shape(group->size() == size && rank >= 0 && rank < size,
             "world size and rank must be those of the group", rank, " of ", size, " in ",
             group->size());
  return group;
}

}  // namespace

void CheckNames(const Call& call, const DistributeAttributes& attributes) {
  const auto is_name = [](const char* name) {
    return name != nullptr && name[0] != '\0' && strnlen(name, kMaxName) < kMaxName;
  };
  const bool has_tp = attributes.tp_size > 1;
  call.RequirePointer("groupEp, or its 1 to 127 characters,",
                      is_name(attributes.group_ep) ? attributes.group_ep : nullptr);
  if (has_tp) {
    call.RequirePointer("groupTp, or its 1 to 127 characters,",
                        is_name(attributes.group_tp) ? attributes.group_tp : nullptr);
  }
}

Placement CheckPlacement(const Call& call, const DistributeAttributes& attributes, int64_t tokens) {
  Placement placement;
  placement.ranks = attributes.ep_size;
  placement.rank = attributes.ep_rank;
  placement.shared_ranks = attributes.shared_ranks;
  placement.moe_experts = attributes.moe_experts;
  placement.divides_shared_tokens = attributes.divides_shared_tokens;
  placement.ep = GroupOf(call, attributes.group_ep, attributes.ep_size, attributes.ep_rank);
  call.Shape(attributes.shard_type == 0, "expertShardType must be 0", attributes.shard_type);
  call.Shape(attributes.shared_ranks >= 0 && attributes.shared_ranks < attributes.ep_size &&
                 attributes.shared_experts >= 0 && attributes.shared_experts <= 4,
             "sharedExpertRankNum must leave a rank, sharedExpertNum be 0 to 4",
             attributes.shared_ranks, " and ", attributes.shared_experts);
  if (attributes.shared_ranks > 0) {
    call.Shape(
        attributes.shared_experts > 0 && attributes.shared_ranks % attributes.shared_experts == 0,
        "sharedExpertRankNum must be a multiple of sharedExpertNum", attributes.shared_ranks,
        " and ", attributes.shared_experts);
    placement.ranks_per_shared = attributes.shared_ranks / attributes.shared_experts;
  }
  const int64_t moe_ranks = attributes.ep_size - attributes.shared_ranks;
  call.Shape(attributes.moe_experts > 0 && attributes.moe_experts <= kMaxExperts &&
                 attributes.moe_experts % moe_ranks == 0,
             "moeExpertNum must be 1 to 1024, a multiple of the ranks without shared experts",
             attributes.moe_experts, " on ", moe_ranks);
  placement.local_experts = attributes.moe_experts / moe_ranks;
  call.Shape(
      std::min({attributes.zero_experts, attributes.copy_experts, attributes.const_experts}) >= 0,
      "zero, copy and const experts must not be negative", attributes.zero_experts, ", ",
      attributes.copy_experts, ", ", attributes.const_experts);
  placement.all_experts = attributes.moe_experts + attributes.zero_experts +
                          attributes.copy_experts + attributes.const_experts;
  call.Shape(
      attributes.global_tokens == 0 || (attributes.global_tokens >= tokens * attributes.ep_size &&
                                        attributes.global_tokens % attributes.ep_size == 0),
      "globalBs must be 0 or a multiple of the ranks, at least Bs for each",
      attributes.global_tokens, " for ", tokens, " on ", attributes.ep_size);
  call.Shape(attributes.tp_size >= 0 && attributes.tp_size <= 2, "tpWorldSize must be 0, 1 or 2",
             attributes.tp_size);
  if (attributes.tp_size == 2) {
    call.Shape(placement.local_experts == 1, "a rank must have one expert when tpWorldSize is 2",
               placement.local_experts);
    placement.tp = GroupOf(call, attributes.group_tp, attributes.tp_size, attributes.tp_rank);
    placement.tp_rank = attributes.tp_rank;
  }
  return placement;
}

SourceRouting ReadRouting(const Run& run, Index expert_ids, Index mask,
                          const Placement& placement) {
  SourceRouting routing;
  const int64_t tokens = run[expert_ids].dim(0);
  routing.k = run[expert_ids].dim(1);
  routing.expert_ids = run.Indices(expert_ids, 0, placement.all_experts - 1);
  routing.token_is_active.assign(static_cast<size_t>(tokens), 1);
  routing.is_active.assign(routing.expert_ids.size(), 1);
  if (mask == kAbsent) return routing;
  const auto flags = run.Span<const uint8_t>(mask);
  if (run[mask].rank() == 1) {  // those that are set stand first: only their number counts
    const auto count = std::count_if(flags.begin(), flags.end(), [](uint8_t f) { return f != 0; });
    std::fill(routing.token_is_active.begin() + count, routing.token_is_active.end(), uint8_t{0});
    std::fill(routing.is_active.begin() + count * routing.k, routing.is_active.end(), uint8_t{0});
    return routing;
  }
  routing.is_active.assign(flags.begin(), flags.end());
  for (int64_t token = 0; token < tokens; ++token) {
    const auto first = flags.begin() + token * routing.k;
    routing.token_is_active[static_cast<size_t>(token)] =
        std::any_of(first, first + routing.k, [](uint8_t f) { return f != 0; });
  }
  return routing;
}

std::vector<SentSlot> SlotsFor(const SourceRouting& routing, const Placement& placement,
                               int64_t source, int64_t target, int64_t group) {
  std::vector<SentSlot> slots;
  if (!placement.is_shared(target)) {
    const int64_t expert = (target - placement.shared_ranks) * placement.local_experts + group;
    for (size_t slot = 0; slot < routing.expert_ids.size(); ++slot) {
      if (routing.expert_ids[slot] != expert || routing.is_active[slot] == 0) continue;
      const auto at = static_cast<int64_t>(slot);
      slots.push_back({static_cast<int32_t>(at / routing.k), static_cast<int32_t>(at % routing.k)});
    }
    return slots;
  }
  std::vector<int32_t> active;
  for (size_t token = 0; token < routing.token_is_active.size(); ++token) {
    if (routing.token_is_active[token] != 0) active.push_back(static_cast<int32_t>(token));
  }
  const auto count = static_cast<int64_t>(active.size());
  int64_t begin = 0, end = count, shared = 0;
  if (placement.divides_shared_tokens) {
    begin = count * target / placement.shared_ranks;
    end = count * (target + 1) / placement.shared_ranks;
  } else {
    if (source % placement.ranks_per_shared != target % placement.ranks_per_shared) return slots;
    shared = target / placement.ranks_per_shared;
  }
  for (int64_t i = begin; i < end; ++i) {
    slots.push_back({active[static_cast<size_t>(i)], static_cast<int32_t>(routing.k + shared)});
  }
  return slots;
}

}  // namespace opst::cann
