// Waits for all ranks of a group, at most for a given time; values and rules are in docs/cann.md.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACLNNOP_ACLNN_DISTRIBUTE_BARRIER_V2_H_
#define OPST_CANN_ACLNNOP_ACLNN_DISTRIBUTE_BARRIER_V2_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnDistributeBarrierV2GetWorkspaceSize(
    const aclTensor* xRef, const aclTensor* timeOut, const aclTensor* elasticInfo,
    const char* group, int64_t worldSize, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnDistributeBarrierV2(void* workspace, uint64_t workspaceSize,
                                               aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACLNNOP_ACLNN_DISTRIBUTE_BARRIER_V2_H_
