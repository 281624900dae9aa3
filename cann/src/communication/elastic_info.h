// CANN's table of the ranks that are left of a group, and the placement among them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_COMMUNICATION_ELASTIC_INFO_H_
#define OPST_CANN_COMMUNICATION_ELASTIC_INFO_H_

#include <cstdint>
#include <vector>

#include "cann/src/communication/placement.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"

namespace opst::cann {

// i32 [4 + 2·size]: whether ranks have left, how many are left, how many of them have shared
// experts, experts of the others; the new rank of each old one or -1; the old rank of each new one.
struct ElasticInfo {
  bool is_smaller = false;
  int64_t shared_ranks = 0;
  int64_t moe_experts = 0;
  std::vector<int32_t> new_ranks;  // [size], -1 = has left
  std::vector<int32_t> old_ranks;  // of those that are left
};

// Its dims (561002) when it is there; and that no tensor parallel ranks are.
void CheckElasticInfo(const Call& call, Index info, int64_t size);
void CheckElasticInfo(const Call& call, Index info, const Placement& placement);
// An absent one says that nobody has left. Fails when the two tables are not each other's inverse.
ElasticInfo ReadElasticInfo(const Run& run, Index info, int64_t size);

// The placement that the operator runs with: among the ranks that are left, each with as many
// experts as before.
Placement PlacementNow(const Run& run, Index info, const Placement& planned);

}  // namespace opst::cann

#endif  // OPST_CANN_COMMUNICATION_ELASTIC_INFO_H_
