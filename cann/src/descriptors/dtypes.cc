// Element types of the acl interface: sizes, names, and what they are called in this project.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/check.h"
#include "cann/src/descriptors/descriptors.h"
#include "cann/src/runtime/failure.h"

namespace opst::cann {
namespace {

struct Row {
  aclDataType acl;
  size_t bytes;  // 0 = not a whole number
  const char* name;
  int dtype;  // DType, or -1
};

constexpr int kNone = -1;
constexpr int Of(DType dtype) { return static_cast<int>(dtype); }
constexpr auto kRows = std::to_array<Row>({
    {ACL_FLOAT, 4, "f32", Of(DType::kF32)},
    {ACL_FLOAT16, 2, "f16", Of(DType::kF16)},
    {ACL_BF16, 2, "bf16", Of(DType::kBf16)},
    {ACL_DOUBLE, 8, "f64", Of(DType::kF64)},
    {ACL_INT8, 1, "i8", Of(DType::kI8)},
    {ACL_UINT8, 1, "u8", Of(DType::kU8)},
    {ACL_INT16, 2, "i16", Of(DType::kI16)},
    {ACL_INT32, 4, "i32", Of(DType::kI32)},
    {ACL_INT64, 8, "i64", Of(DType::kI64)},
    {ACL_BOOL, 1, "bool", Of(DType::kBool)},
    {ACL_UINT16, 2, "u16", kNone},
    {ACL_UINT32, 4, "u32", kNone},
    {ACL_UINT64, 8, "u64", kNone},
    {ACL_COMPLEX32, 4, "complex32", kNone},
    {ACL_COMPLEX64, 8, "complex64", kNone},
    {ACL_COMPLEX128, 16, "complex128", kNone},
    {ACL_HIFLOAT8, 1, "hifloat8", kNone},
    {ACL_FLOAT8_E5M2, 1, "f8_e5m2", kNone},
    {ACL_FLOAT8_E4M3FN, 1, "f8_e4m3", kNone},
    {ACL_FLOAT8_E8M0, 1, "f8_e8m0", kNone},
    {ACL_INT4, 0, "int4", kNone},
    {ACL_UINT1, 0, "u1", kNone},
    {ACL_STRING, 0, "string", kNone},
});

const Row* Find(aclDataType dtype) {
  for (const Row& row : kRows) {
    if (row.acl == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

std::string DataTypeName(aclDataType dtype) {
  const Row* row = Find(dtype);
  return row == nullptr ? Concat("type ", static_cast<int>(dtype)) : row->name;
}

std::string DescribeTensor(const std::vector<int64_t>& dims, aclDataType dtype) {
  std::string text = "[";
  for (const int64_t dim : dims) text += Concat(text.size() == 1 ? "" : ",", dim);
  return Concat(text, "] ", DataTypeName(dtype));
}

DType ToDType(aclDataType dtype) {
  const Row* row = Find(dtype);
  Require(row != nullptr && row->dtype != kNone, ACLNN_ERR_PARAM_INVALID, "cann",
          "the element type must be known", DataTypeName(dtype));
  return static_cast<DType>(row->dtype);
}

}  // namespace opst::cann

size_t aclDataTypeSize(aclDataType dataType) {
  const opst::cann::Row* row = opst::cann::Find(dataType);
  return row == nullptr ? 0 : row->bytes;
}

float aclFloat16ToFloat(aclFloat16 value) { return opst::ToFloat(opst::F16{value}); }
aclFloat16 aclFloatToFloat16(float value) { return opst::ToF16(value).bits; }
