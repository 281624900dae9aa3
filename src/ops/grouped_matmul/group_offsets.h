// The check of group offsets that all grouped products make. No product is here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GROUPED_MATMUL_GROUP_OFFSETS_H_
#define OPST_OPS_GROUPED_MATMUL_GROUP_OFFSETS_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace opst {

// Throws kInvalidArgument unless there are num_groups + 1 offsets that ascend from 0 to num_rows.
void CheckGroupOffsets(std::string_view op, std::span<const int64_t> offsets, int64_t num_groups,
                       int64_t num_rows);

}  // namespace opst

#endif  // OPST_OPS_GROUPED_MATMUL_GROUP_OFFSETS_H_
