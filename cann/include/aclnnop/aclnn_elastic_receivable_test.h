// Leaves a mark with the ranks of one server, in two phases; who has which is collected later.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACLNNOP_ACLNN_ELASTIC_RECEIVABLE_TEST_H_
#define OPST_CANN_ACLNNOP_ACLNN_ELASTIC_RECEIVABLE_TEST_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACLNN_API aclnnStatus aclnnElasticReceivableTestGetWorkspaceSize(
    aclTensor* dstRank, const char* group, int64_t worldSize, int64_t rank_num,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnElasticReceivableTest(void* workspace, uint64_t workspaceSize,
                                                 aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACLNNOP_ACLNN_ELASTIC_RECEIVABLE_TEST_H_
