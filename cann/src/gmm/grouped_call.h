// What all versions of grouped_matmul hand over, and the one check and run behind them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_GMM_GROUPED_CALL_H_
#define OPST_CANN_GMM_GROUPED_CALL_H_

#include <cstdint>

#include "aclnn/acl_meta.h"

namespace opst::cann {

// The arguments of the newest version; older ones leave theirs null or 0.
struct GroupedArguments {
  const aclTensorList* x = nullptr;
  const aclTensorList* weight = nullptr;
  const aclTensorList* bias = nullptr;
  const aclTensorList* scale = nullptr;
  const aclTensorList* offset = nullptr;
  const aclTensorList* antiquant_scale = nullptr;
  const aclTensorList* antiquant_offset = nullptr;
  const aclTensorList* per_token_scale = nullptr;
  const aclIntArray* host_groups = nullptr;  // V1 and V2; running sums
  const aclTensor* groups = nullptr;         // since V3
  // The two kinds of arguments that CANN keeps for later.
  const void* activation_inputs = nullptr;
  const void* reserved_outputs = nullptr;
  int64_t split_item = 0;
  int64_t group_type = -1;  // -1 none, 0 rows, 2 inner dim
  int64_t group_list_type = 0;
  int64_t activation = 0;
  int64_t quant_group_size = 0;  // of WeightNz; the dims of the scales say the same
  const aclTensorList* out = nullptr;
};

aclnnStatus PrepareGroupedMatmul(const char* name, const GroupedArguments& arguments,
                                 uint64_t* workspace_size, aclOpExecutor** executor);

}  // namespace opst::cann

#endif  // OPST_CANN_GMM_GROUPED_CALL_H_
