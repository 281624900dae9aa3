// What every aclnn operator header needs: descriptors, and the two calls that begin and end aclnn.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACLNN_ACLNN_BASE_H_
#define OPST_CANN_ACLNN_ACLNN_BASE_H_

#include "aclnn/acl_meta.h"

#define ACLNN_API ACL_FUNC_VISIBILITY

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char* configPath);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACLNN_ACLNN_BASE_H_
