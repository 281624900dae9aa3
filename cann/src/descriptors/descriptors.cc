// Making, reading and destroying the descriptors of acl_meta.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/descriptors/descriptors.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "cann/src/runtime/failure.h"
#include "cann/src/runtime/handles.h"

namespace opst::cann {
namespace {

constexpr uint64_t kMaxDims = 25;  // CANN's
constexpr int64_t kMaxExtent = int64_t{1} << 56;

std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
  return strides;
}

// The product of the dims; fails when it does not fit.
void CheckExtents(const std::vector<int64_t>& dims, std::string_view what) {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    Require(dim >= 0 && (dim == 0 || product <= kMaxExtent / dim), ACL_ERROR_INVALID_PARAM,
            "aclCreateTensor", Concat(what, " must not be negative, their product below 2^56"), dim,
            " after ", product);
    product *= std::max<int64_t>(dim, 1);
  }
}

aclTensor Checked(const int64_t* view_dims, uint64_t num_dims, aclDataType dtype,
                  const int64_t* strides, int64_t offset, aclFormat format,
                  const int64_t* storage_dims, uint64_t num_storage_dims, void* data) {
  Require(num_dims <= kMaxDims && num_storage_dims <= kMaxDims, ACL_ERROR_INVALID_PARAM,
          "aclCreateTensor", "a tensor must have at most 25 dims", num_dims, " and ",
          num_storage_dims);
  Require(
      (num_dims == 0 || view_dims != nullptr) && (num_storage_dims == 0 || storage_dims != nullptr),
      ACL_ERROR_INVALID_PARAM, "aclCreateTensor", "dims must not be null", "null");
  Require(offset >= 0 && offset <= kMaxExtent, ACL_ERROR_INVALID_PARAM, "aclCreateTensor",
          "the offset must be 0 to 2^56", offset);
  aclTensor tensor;
  tensor.dims.assign(view_dims, view_dims + num_dims);
  tensor.storage_dims.assign(storage_dims, storage_dims + num_storage_dims);
  CheckExtents(tensor.dims, "dims");
  CheckExtents(tensor.storage_dims, "storage dims");
  if (strides == nullptr) {
    tensor.strides = ContiguousStrides(tensor.dims);
  } else {
    tensor.strides.assign(strides, strides + num_dims);
  }
  for (const int64_t stride : tensor.strides) {
    Require(stride >= 0 && stride <= kMaxExtent, ACL_ERROR_INVALID_PARAM, "aclCreateTensor",
            "strides must be 0 to 2^56", stride);
  }
  tensor.offset = offset;
  tensor.dtype = dtype;
  tensor.format = format;
  tensor.data = data;
  return tensor;
}

// Makes what `build` returns; null, with the reason kept, when that fails.
template <typename T, typename Build>
T* Create(const Build& build) {
  T* made = nullptr;
  Guard(ACL_ERROR_INVALID_PARAM, [&] { made = Handles<T>::OfProcess().Make(build()); });
  return made;
}

template <typename T>
aclnnStatus Destroy(const T* handle, std::string_view function) {
  return Guard(ACLNN_ERR_PARAM_INVALID, [&] {
    Require(handle != nullptr, ACLNN_ERR_PARAM_NULLPTR, function, "the argument must not be null",
            "null");
    Require(Handles<T>::OfProcess().Remove(handle) != nullptr, ACLNN_ERR_PARAM_INVALID, function,
            "it must be live, destroyed once and not with its list", handle);
  });
}

template <typename Array, typename Value>
Array* CreateArray(const Value* value, uint64_t size, std::string_view function) {
  return Create<Array>([&] {
    Require(size == 0 || value != nullptr, ACL_ERROR_INVALID_PARAM, function,
            "value must not be null", "null");
    Array array;
    array.values.assign(value, value + size);
    return array;
  });
}

template <typename List, typename Member>
List* CreateList(const Member* const* value, uint64_t size, std::string_view function) {
  return Create<List>([&] {
    Require(size == 0 || value != nullptr, ACL_ERROR_INVALID_PARAM, function,
            "value must not be null", "null");
    List list;
    list.members.assign(value, value + size);
    return list;
  });
}

// Destroys the members, too; those that are gone already are passed over.
template <typename List, typename Member>
aclnnStatus DestroyList(const List* list, std::string_view function) {
  const auto found = Handles<List>::OfProcess().Find(list);
  const aclnnStatus status = Destroy(list, function);
  if (status != ACLNN_SUCCESS) return status;
  for (const Member* member : found->members) Handles<Member>::OfProcess().Remove(member);
  return ACLNN_SUCCESS;
}

// Copies what a getter asks for; `read` sees the live object.
template <typename T, typename Read>
aclnnStatus Get(const T* handle, bool has_outputs, std::string_view function, const Read& read) {
  return Guard(ACLNN_ERR_PARAM_INVALID, [&] {
    Require(handle != nullptr && has_outputs, ACLNN_ERR_PARAM_NULLPTR, function,
            "arguments must not be null", "null");
    const auto found = Handles<T>::OfProcess().Find(handle);
    Require(found != nullptr, ACLNN_ERR_PARAM_INVALID, function, "it must be live", handle);
    read(*found);
  });
}

void Export(const std::vector<int64_t>& values, int64_t** out, uint64_t* size) {
  *out = new int64_t[std::max<size_t>(values.size(), 1)];
  std::copy(values.begin(), values.end(), *out);
  *size = values.size();
}

}  // namespace

std::shared_ptr<aclTensor> LiveTensor(const aclTensor* tensor) {
  return Handles<aclTensor>::OfProcess().Find(tensor);
}
std::shared_ptr<aclTensorList> LiveTensorList(const aclTensorList* list) {
  return Handles<aclTensorList>::OfProcess().Find(list);
}
std::shared_ptr<aclIntArray> LiveIntArray(const aclIntArray* array) {
  return Handles<aclIntArray>::OfProcess().Find(array);
}

}  // namespace opst::cann

using namespace opst::cann;  // NOLINT: only the C functions follow

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t* stride, int64_t offset, aclFormat format,
                           const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData) {
  return Create<aclTensor>([&] {
    return Checked(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                   storageDimsNum, tensorData);
  });
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  return Create<aclScalar>([&] {
    const size_t bytes = aclDataTypeSize(dataType);
    Require(value != nullptr && bytes > 0 && bytes <= sizeof(uint64_t), ACL_ERROR_INVALID_PARAM,
            "aclCreateScalar", "the value must not be null, of 1 to 8 bytes",
            DataTypeName(dataType));
    aclScalar scalar{dataType};
    std::memcpy(&scalar.bits, value, bytes);
    return scalar;
  });
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return CreateArray<aclIntArray>(value, size, "aclCreateIntArray");
}
aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return CreateArray<aclFloatArray>(value, size, "aclCreateFloatArray");
}
aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return CreateArray<aclBoolArray>(value, size, "aclCreateBoolArray");
}
aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return CreateList<aclTensorList>(value, size, "aclCreateTensorList");
}
aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return CreateList<aclScalarList>(value, size, "aclCreateScalarList");
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  return Destroy(tensor, "aclDestroyTensor");
}
aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  return Destroy(scalar, "aclDestroyScalar");
}
aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return Destroy(array, "aclDestroyIntArray");
}
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  return Destroy(array, "aclDestroyFloatArray");
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return Destroy(array, "aclDestroyBoolArray");
}
aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
  return DestroyList<aclTensorList, aclTensor>(array, "aclDestroyTensorList");
}
aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
  return DestroyList<aclScalarList, aclScalar>(array, "aclDestroyScalarList");
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return Get(tensor, viewDims && viewDimsNum, "aclGetViewShape",
             [&](const aclTensor& live) { Export(live.dims, viewDims, viewDimsNum); });
}
aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                               uint64_t* storageDimsNum) {
  return Get(
      tensor, storageDims && storageDimsNum, "aclGetStorageShape",
      [&](const aclTensor& live) { Export(live.storage_dims, storageDims, storageDimsNum); });
}
aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                              uint64_t* stridesNum) {
  return Get(tensor, stridesValue && stridesNum, "aclGetViewStrides",
             [&](const aclTensor& live) { Export(live.strides, stridesValue, stridesNum); });
}
aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return Get(tensor, offset, "aclGetViewOffset",
             [&](const aclTensor& live) { *offset = live.offset; });
}
aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return Get(tensor, format, "aclGetFormat", [&](const aclTensor& live) { *format = live.format; });
}
aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return Get(tensor, dataType, "aclGetDataType",
             [&](const aclTensor& live) { *dataType = live.dtype; });
}
aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  return Get(tensor, addr, "aclGetRawTensorAddr",
             [&](const aclTensor& live) { *addr = live.data; });
}
aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  return Get(tensor, addr, "aclSetRawTensorAddr", [&](aclTensor& live) { live.data = addr; });
}
aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return Get(array, size, "aclGetIntArraySize",
             [&](const aclIntArray& live) { *size = live.values.size(); });
}
aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return Get(array, size, "aclGetFloatArraySize",
             [&](const aclFloatArray& live) { *size = live.values.size(); });
}
aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return Get(array, size, "aclGetBoolArraySize",
             [&](const aclBoolArray& live) { *size = live.values.size(); });
}
aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size) {
  return Get(list, size, "aclGetTensorListSize",
             [&](const aclTensorList& live) { *size = live.members.size(); });
}
aclnnStatus aclGetScalarListSize(const aclScalarList* list, uint64_t* size) {
  return Get(list, size, "aclGetScalarListSize",
             [&](const aclScalarList& live) { *size = live.members.size(); });
}
