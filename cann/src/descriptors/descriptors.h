// The structs behind the opaque descriptors of acl_meta.h. They own their numbers and borrow data.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_DESCRIPTORS_DESCRIPTORS_H_
#define OPST_CANN_DESCRIPTORS_DESCRIPTORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"
#include "opst/dtype.h"

struct aclTensor {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  // in elements, one a dim
  std::vector<int64_t> storage_dims;
  int64_t offset = 0;  // in elements
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  void* data = nullptr;
};
struct aclTensorList {
  std::vector<const aclTensor*> members;
};
struct aclScalar {
  aclDataType dtype = ACL_DT_UNDEFINED;
  uint64_t bits = 0;
};
struct aclScalarList {
  std::vector<const aclScalar*> members;
};
struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclFloatArray {
  std::vector<float> values;
};
struct aclBoolArray {
  std::vector<uint8_t> values;
};

namespace opst::cann {

// "f32", "bf16", … "int4"; for texts.
std::string DataTypeName(aclDataType dtype);
// "[4,8] f32".
std::string DescribeTensor(const std::vector<int64_t>& dims, aclDataType dtype);
// The project's dtype of the same meaning; u16, u32 and u64 are not among them. Throws Failure.
DType ToDType(aclDataType dtype);

// Whether the descriptor is live; a null pointer is not.
std::shared_ptr<aclTensor> LiveTensor(const aclTensor* tensor);
std::shared_ptr<aclTensorList> LiveTensorList(const aclTensorList* list);
std::shared_ptr<aclIntArray> LiveIntArray(const aclIntArray* array);

}  // namespace opst::cann

#endif  // OPST_CANN_DESCRIPTORS_DESCRIPTORS_H_
