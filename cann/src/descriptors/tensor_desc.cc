// Data buffers and tensor descriptions of acl_base.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/descriptors/tensor_desc.h"

#include "acl/acl_op.h"
#include "cann/src/runtime/failure.h"
#include "cann/src/runtime/handles.h"

namespace opst::cann {
namespace {

using Buffers = Handles<aclDataBuffer>;
using Descriptions = Handles<aclTensorDesc>;

// What a getter returns, or `otherwise` for a stale handle.
template <typename T, typename Result, typename Read>
Result Get(const T* handle, Result otherwise, const Read& read) {
  const auto found = Handles<T>::OfProcess().Find(handle);
  return found == nullptr ? otherwise : read(*found);
}

size_t Count(const aclTensorDesc& desc) {
  size_t count = 1;
  for (const int64_t dim : desc.dims) count *= static_cast<size_t>(dim);
  return count;
}

}  // namespace
}  // namespace opst::cann

using namespace opst::cann;  // NOLINT: only the C functions follow

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  return Buffers::OfProcess().Make(aclDataBuffer{data, size});
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  return Guard(ACL_ERROR_INVALID_PARAM, [&] {
    Require(Buffers::OfProcess().Remove(dataBuffer) != nullptr, ACL_ERROR_INVALID_PARAM,
            "aclDestroyDataBuffer", "the buffer must be live",
            static_cast<const void*>(dataBuffer));
  });
}

aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
  return Guard(ACL_ERROR_INVALID_PARAM, [&] {
    const auto found = Buffers::OfProcess().Find(dataBuffer);
    Require(found != nullptr, ACL_ERROR_INVALID_PARAM, "aclUpdateDataBuffer",
            "the buffer must be live", static_cast<const void*>(dataBuffer));
    *found = {data, size};
  });
}

void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  return Get(dataBuffer, static_cast<void*>(nullptr), [](const auto& live) { return live.data; });
}
size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
  return Get(dataBuffer, size_t{0}, [](const auto& live) { return live.bytes; });
}
uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
  return static_cast<uint32_t>(aclGetDataBufferSizeV2(dataBuffer));
}

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims,
                                   aclFormat format) {
  aclTensorDesc* made = nullptr;
  Guard(ACL_ERROR_INVALID_PARAM, [&] {
    Require(numDims >= 0 && numDims <= 25 && (numDims == 0 || dims != nullptr),
            ACL_ERROR_INVALID_PARAM, "aclCreateTensorDesc", "there must be 0 to 25 dims", numDims);
    aclTensorDesc desc;
    desc.dtype = dataType;
    desc.dims.assign(dims, dims + numDims);
    desc.format = format;
    for (const int64_t dim : desc.dims) {
      Require(dim >= 0, ACL_ERROR_INVALID_PARAM, "aclCreateTensorDesc", "dims must not be negative",
              dim);
    }
    made = Descriptions::OfProcess().Make(desc);
  });
  return made;
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) { Descriptions::OfProcess().Remove(desc); }

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  return Get(desc, ACL_DT_UNDEFINED, [](const auto& live) { return live.dtype; });
}
aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  return Get(desc, ACL_FORMAT_UNDEFINED, [](const auto& live) { return live.format; });
}
size_t aclGetTensorDescElementCount(const aclTensorDesc* desc) {
  return Get(desc, size_t{0}, [](const auto& live) { return Count(live); });
}
size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  return Get(desc, size_t{0},
             [](const auto& live) { return Count(live) * aclDataTypeSize(live.dtype); });
}
size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  return Get(desc, size_t{0}, [](const auto& live) { return live.dims.size(); });
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  return Guard(ACL_ERROR_INVALID_PARAM, [&] {
    const auto found = Descriptions::OfProcess().Find(desc);
    Require(found != nullptr && dimSize != nullptr && index < found->dims.size(),
            ACL_ERROR_INVALID_PARAM, "aclGetTensorDescDimV2",
            "the description must be live and have that dim", index);
    *dimSize = found->dims[index];
  });
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  const auto found = Descriptions::OfProcess().Find(desc);
  if (found != nullptr && name != nullptr) found->name = name;
}
const char* aclGetTensorDescName(aclTensorDesc* desc) {
  return Get(desc, "", [](const auto& live) { return live.name.c_str(); });
}

aclError aclSetTensorDescData(aclTensorDesc* desc, const aclDataBuffer* dataBuffer) {
  return Guard(ACL_ERROR_INVALID_PARAM, [&] {
    const auto found = Descriptions::OfProcess().Find(desc);
    const auto buffer = Buffers::OfProcess().Find(dataBuffer);
    Require(found != nullptr && buffer != nullptr, ACL_ERROR_INVALID_PARAM, "aclSetTensorDescData",
            "description and buffer must be live", static_cast<const void*>(desc));
    found->buffer = *buffer;
  });
}
