// Grouped int8 product with weighted sum per token.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACLNNOP_ACLNN_GROUPED_MATMUL_FINALIZE_ROUTING_H_
#define OPST_CANN_ACLNNOP_ACLNN_GROUPED_MATMUL_FINALIZE_ROUTING_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnGroupedMatmulFinalizeRoutingGetWorkspaceSize(
    const aclTensor* x, aclTensor* w, const aclTensor* scaleOptional, const aclTensor* biasOptional,
    const aclTensor* pertokenScaleOptional, const aclTensor* groupListOptional,
    const aclTensor* sharedInputOptional, const aclTensor* logitOptional,
    const aclTensor* rowIndexOptional, int64_t dtype, float sharedInputWeight,
    int64_t sharedInputOffset, bool transposeX, bool transposeW, int64_t groupListType,
    aclTensor* y, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGroupedMatmulFinalizeRouting(void* workspace, uint64_t workspaceSize,
                                                        aclOpExecutor* executor,
                                                        aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACLNNOP_ACLNN_GROUPED_MATMUL_FINALIZE_ROUTING_H_
