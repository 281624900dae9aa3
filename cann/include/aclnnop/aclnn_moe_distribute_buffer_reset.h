// Clears what a rank keeps for dispatch and combine.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACLNNOP_ACLNN_MOE_DISTRIBUTE_BUFFER_RESET_H_
#define OPST_CANN_ACLNNOP_ACLNN_MOE_DISTRIBUTE_BUFFER_RESET_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnMoeDistributeBufferResetGetWorkspaceSize(
    const aclTensor* elasticInfo, const char* groupEp, int64_t epWorldSize, int64_t needSync,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMoeDistributeBufferReset(void* workspace, uint64_t workspaceSize,
                                                    aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACLNNOP_ACLNN_MOE_DISTRIBUTE_BUFFER_RESET_H_
