// The structs behind data buffers and tensor descriptions of acl_base.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_DESCRIPTORS_TENSOR_DESC_H_
#define OPST_CANN_DESCRIPTORS_TENSOR_DESC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "acl/acl_base.h"

struct aclDataBuffer {
  void* data = nullptr;
  size_t bytes = 0;
};
struct aclTensorDesc {
  aclDataType dtype = ACL_DT_UNDEFINED;
  std::vector<int64_t> dims;
  aclFormat format = ACL_FORMAT_ND;
  std::string name;
  aclDataBuffer buffer;
};

#endif  // OPST_CANN_DESCRIPTORS_TENSOR_DESC_H_
