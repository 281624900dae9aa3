// Feed-forward layer, with experts on request; counts or running sums on the host.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACLNNOP_ACLNN_FFN_V2_H_
#define OPST_CANN_ACLNNOP_ACLNN_FFN_V2_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnFFNV2GetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight1, const aclTensor* weight2,
    const aclIntArray* expertTokensOptional, const aclTensor* bias1Optional,
    const aclTensor* bias2Optional, const aclTensor* scaleOptional, const aclTensor* offsetOptional,
    const aclTensor* deqScale1Optional, const aclTensor* deqScale2Optional,
    const aclTensor* antiquantScale1Optional, const aclTensor* antiquantScale2Optional,
    const aclTensor* antiquantOffset1Optional, const aclTensor* antiquantOffset2Optional,
    const char* activation, int64_t innerPrecise, bool tokensIndexFlag, const aclTensor* y,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnFFNV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                 aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACLNNOP_ACLNN_FFN_V2_H_
