// Collects the marks that ranks left with each other, in two phases.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACLNNOP_ACLNN_ELASTIC_RECEIVABLE_INFO_COLLECT_H_
#define OPST_CANN_ACLNNOP_ACLNN_ELASTIC_RECEIVABLE_INFO_COLLECT_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnElasticReceivableInfoCollectGetWorkspaceSize(const char* group,
                                                                        int64_t worldSize,
                                                                        aclTensor* y,
                                                                        uint64_t* workspaceSize,
                                                                        aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnElasticReceivableInfoCollect(void* workspace, uint64_t workspaceSize,
                                                        aclOpExecutor* executor,
                                                        aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACLNNOP_ACLNN_ELASTIC_RECEIVABLE_INFO_COLLECT_H_
