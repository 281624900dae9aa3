// Logical to physical expert ids, with optional pruning.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACLNNOP_ACLNN_MOE_UPDATE_EXPERT_H_
#define OPST_CANN_ACLNNOP_ACLNN_MOE_UPDATE_EXPERT_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnMoeUpdateExpertGetWorkspaceSize(
    const aclTensor* expertIds, const aclTensor* eplbTable, const aclTensor* expertScalesOptional,
    const aclTensor* pruningThresholdOptional, const aclTensor* activeMaskOptional,
    int64_t localRankId, int64_t worldSize, int64_t balanceMode, aclTensor* balancedExpertIds,
    aclTensor* balancedActiveMask, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMoeUpdateExpert(void* workspace, uint64_t workspaceSize,
                                           aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACLNNOP_ACLNN_MOE_UPDATE_EXPERT_H_
