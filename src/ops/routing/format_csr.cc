// Prints a routing plan as a CSR matrix.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/check.h"
#include "ops/routing/check_plan.h"
#include "opst/routing_plan.h"

namespace opst {

std::string FormatAsCsr(const RoutingPlan& plan, int64_t max_entries) {
  constexpr std::string_view kOp = "format_as_csr";
  OPST_CHECK_ARG(max_entries >= 0, kOp, "max_entries must not be negative", max_entries);
  CheckPlan(kOp, plan);
  std::string text;
  for (size_t expert = 0; expert + 1 < plan.expert_offsets.size(); ++expert) {
    const int64_t begin = plan.expert_offsets[expert];
    const int64_t end = plan.expert_offsets[expert + 1];
    const int64_t shown = std::min(end - begin, max_entries);
    text += Concat("expert ", expert, " [", begin, ",", end, "):");
    for (int64_t row = begin; row < begin + shown; ++row) {
      const int32_t slot = plan.row_to_slot[static_cast<size_t>(row)];
      if (slot < 0) {
        text += " -";
        continue;
      }
      text += Concat(" ", slot / plan.top_k, ".", slot % plan.top_k, ":",
                     plan.expert_weights[static_cast<size_t>(slot)]);
    }
    if (shown < end - begin) text += Concat(" and ", end - begin - shown, " more");
    text += '\n';
  }
  return text;
}

}  // namespace opst
