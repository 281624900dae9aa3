// The header that programs for CANN include first: initialisation, runtime and single operators.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACL_ACL_H_
#define OPST_CANN_ACL_ACL_H_

#include "acl/acl_base.h"
#include "acl/acl_op.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 0
#define ACL_PATCH_VERSION 0

// A configuration file is accepted and not read.
ACL_FUNC_VISIBILITY aclError aclInit(const char* configPath);
// Waits for all streams and ends them.
ACL_FUNC_VISIBILITY aclError aclFinalize(void);
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion,
                                             int32_t* patchVersion);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACL_ACL_H_
