// Where the experts of the dispatch and combine operators live, and what all of them check.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_COMMUNICATION_PLACEMENT_H_
#define OPST_CANN_COMMUNICATION_PLACEMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cann/src/communication/group.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"

namespace opst::cann {

// The attributes that every operator of the family has.
struct DistributeAttributes {
  const char* group_ep = nullptr;
  int64_t ep_size = 0;
  int64_t ep_rank = 0;
  int64_t moe_experts = 0;
  const char* group_tp = nullptr;
  int64_t tp_size = 0;
  int64_t tp_rank = 0;
  int64_t shard_type = 0;
  int64_t shared_experts = 0;
  int64_t shared_ranks = 0;
  int64_t global_tokens = 0;
  // Experts that need no rank stand behind the others: zero, copy, const.
  int64_t zero_experts = 0;
  int64_t copy_experts = 0;
  int64_t const_experts = 0;
  // The first version divides a rank's tokens over all shared ranks.
  bool divides_shared_tokens = false;
};

// Shared ranks come first; the experts stand on the others in order.
struct Placement {
  int64_t ranks = 0;
  int64_t rank = 0;
  int64_t shared_ranks = 0;
  int64_t ranks_per_shared = 0;
  int64_t moe_experts = 0;
  int64_t all_experts = 0;  // those without a rank included
  int64_t local_experts = 0;
  bool divides_shared_tokens = false;
  std::shared_ptr<Group> ep;
  std::shared_ptr<Group> tp;  // empty without tensor parallel ranks
  int64_t tp_rank = 0;

  bool is_shared(int64_t r) const { return r < shared_ranks; }
  // Groups of rows that a rank keeps: one a local expert.
  int64_t groups_of(int64_t r) const { return is_shared(r) ? 1 : local_experts; }
  int64_t rank_of(int64_t expert) const { return shared_ranks + expert / local_experts; }
  int64_t local_of(int64_t expert) const { return expert % local_experts; }
  int64_t tp_ranks() const { return tp == nullptr ? 1 : 2; }
};

// Null and too long names are 161001, everything else 561002.
void CheckNames(const Call& call, const DistributeAttributes& attributes);
Placement CheckPlacement(const Call& call, const DistributeAttributes& attributes, int64_t tokens);

// A token and its choice; choices of k and above are shared experts.
struct SentSlot {
  int32_t token = 0;
  int32_t choice = 0;
};

// What a rank's routing sends where.
struct SourceRouting {
  int64_t k = 0;
  std::vector<int32_t> expert_ids;       // [T,k]
  std::vector<uint8_t> is_active;        // [T,k]; all of a token's slots when the mask is of tokens
  std::vector<uint8_t> token_is_active;  // [T]
};

// Ids and mask of this rank. The mask is absent, [T] (only how many are set counts) or [T,k].
SourceRouting ReadRouting(const Run& run, Index expert_ids, Index mask, const Placement& placement);

// The slots of source rank `source` that go to group `group` of rank `target`, in their order.
std::vector<SentSlot> SlotsFor(const SourceRouting& routing, const Placement& placement,
                               int64_t source, int64_t target, int64_t group);

}  // namespace opst::cann

#endif  // OPST_CANN_COMMUNICATION_PLACEMENT_H_
