// The check of group offsets: one pass, each fault with its own text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_matmul/group_offsets.h"

#include "base/check.h"

namespace opst {

void CheckGroupOffsets(std::string_view op, std::span<const int64_t> offsets, int64_t num_groups,
                       int64_t num_rows) {
  OPST_CHECK_ARG(static_cast<int64_t>(offsets.size()) == num_groups + 1, op,
                 "group_offsets must have one value more than there are groups", offsets.size(),
                 " for ", num_groups, " groups");
  OPST_CHECK_ARG(offsets.front() == 0 && offsets.back() == num_rows, op,
                 "group_offsets must begin with 0 and end with the number of rows", offsets.front(),
                 " and ", offsets.back(), " for ", num_rows, " rows");
  for (size_t group = 1; group < offsets.size(); ++group) {
    OPST_CHECK_ARG(offsets[group - 1] <= offsets[group], op, "group_offsets must ascend",
                   offsets[group - 1], " before ", offsets[group], " at [", group, "]");
  }
}

}  // namespace opst
