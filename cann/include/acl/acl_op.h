// The MoE layer as one named operator, in the four calls that articles about CANN print. The rest
// of CANN's aclop interface is not here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_ACL_ACL_OP_H_
#define OPST_CANN_ACL_ACL_OP_H_

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclopHandle aclopHandle;

// A handle of the operator "moe_v2"; null, with a text for aclGetRecentErrMsg, for other names. The
// newest handle of a thread is the one that aclSetTensorDesc means.
ACL_FUNC_VISIBILITY aclopHandle* aclopCreateHandle(const char* opType);
ACL_FUNC_VISIBILITY void aclopDestroyHandle(aclopHandle* handle);

// Gives an operand to the thread's newest handle. The descriptor's name says which one
// (aclSetTensorDescName), its data where it is; see docs/cann.md for names and shapes.
ACL_FUNC_VISIBILITY aclError aclSetTensorDesc(const aclTensorDesc* desc);
// Device memory of a descriptor. Not a call of CANN's.
ACL_FUNC_VISIBILITY aclError aclSetTensorDescData(aclTensorDesc* desc,
                                                  const aclDataBuffer* dataBuffer);
ACL_FUNC_VISIBILITY aclError aclSetAttrInt(aclopHandle* handle, const char* attrName,
                                           int64_t attrValue);
// Runs the operator and waits for it.
ACL_FUNC_VISIBILITY aclError aclopExecute(aclopHandle* handle);

#ifdef __cplusplus
}
#endif

#endif  // OPST_CANN_ACL_ACL_OP_H_
