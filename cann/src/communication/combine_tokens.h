// The sum that all combine operators share: rows brought back from the ranks of their experts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_COMMUNICATION_COMBINE_TOKENS_H_
#define OPST_CANN_COMMUNICATION_COMBINE_TOKENS_H_

#include <cstdint>
#include <vector>

#include "cann/src/communication/placement.h"

namespace opst::cann {

struct CombineArguments {
  const aclTensor *expand_x, *expert_ids, *info, *send_counts, *expert_scales;
  const aclTensor *tp_counts, *mask, *activation_scale, *weight_scale, *group_list, *expand_scales;
  const aclTensor *shared_x = nullptr, *elastic = nullptr, *ori_x = nullptr, *alpha1 = nullptr,
                  *alpha2 = nullptr, *const_v = nullptr;
  int64_t comm_quant_mode = 0;
};

struct CombineOperands {
  Index rows = kAbsent, expert_ids = kAbsent, counts = kAbsent, expert_scales = kAbsent;
  Index tp_counts = kAbsent, mask = kAbsent, shared_x = kAbsent, ori_x = kAbsent;
  Index alpha1 = kAbsent, alpha2 = kAbsent, const_v = kAbsent, elastic = kAbsent;
  int64_t tokens = 0;
  int64_t width = 0;
  int64_t k = 0;
  int64_t copy_begin = 0;   // first id of the copy experts
  int64_t const_begin = 0;  // of the const experts
  bool quantizes = false;
};

// Declares and null-checks; then, after CheckOperands, the shapes.
CombineOperands DeclareCombine(Call& call, const CombineArguments& arguments,
                               const DistributeAttributes& attributes);
Placement CheckCombine(Call& call, const CombineArguments& arguments,
                       const DistributeAttributes& attributes, CombineOperands& operands);

// Sums in f32 [T,H], and which tokens have one.
struct Combined {
  std::vector<float> sums;
  std::vector<uint8_t> is_active;
};
Combined CombineTokens(const Run& run, const CombineOperands& operands, const Placement& placement);

}  // namespace opst::cann

#endif  // OPST_CANN_COMMUNICATION_COMBINE_TOKENS_H_
