// Allocation, copies and fills of the acl interface; every device address is checked.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "acl/acl_rt.h"
#include "cann/src/runtime/device.h"
#include "cann/src/runtime/failure.h"
#include "cann/src/runtime/memory.h"
#include "cann/src/runtime/stream.h"

namespace opst::cann {
namespace {

using Block = std::shared_ptr<MemoryBlock>;

// The block of a range of device memory; work that is queued keeps it.
Block DeviceRange(const void* address, size_t bytes, std::string_view function,
                  std::string_view what) {
  Block block = Memory().Find(address);
  Require(block != nullptr && block->kind == MemoryKind::kDevice, ACL_ERROR_RT_PARAM_INVALID,
          function, Concat(what, " must be live device memory"), address);
  Require(bytes <= block->BytesFrom(address), ACL_ERROR_RT_PARAM_INVALID, function,
          Concat(what, " must hold all bytes of the call"), bytes, " bytes where ",
          block->BytesFrom(address), " are left of ", block->bytes);
  return block;
}

// Host memory is unknown unless it came from aclrtMallocHost; then its bounds count too.
Block HostRange(const void* address, size_t bytes, std::string_view function,
                std::string_view what) {
  Block block = Memory().Find(address);
  if (block == nullptr) return block;
  Require(block->kind == MemoryKind::kHost, ACL_ERROR_RT_PARAM_INVALID, function,
          Concat(what, " must be host memory for this kind of copy"), address);
  Require(bytes <= block->BytesFrom(address), ACL_ERROR_RT_PARAM_INVALID, function,
          Concat(what, " must hold all bytes of the call"), bytes, " bytes where ",
          block->BytesFrom(address), " are left of ", block->bytes);
  return block;
}

Block AnyRange(const void* address, size_t bytes, std::string_view function,
               std::string_view what) {
  const Block block = Memory().Find(address);
  const bool is_device = block != nullptr && block->kind == MemoryKind::kDevice;
  return is_device ? DeviceRange(address, bytes, function, what)
                   : HostRange(address, bytes, function, what);
}

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  Block to_block;
  Block from_block;
  void Run() const { std::memmove(to, from, bytes); }
};

Copy CheckCopy(void* dst, size_t dest_max, const void* src, size_t count, aclrtMemcpyKind kind,
               std::string_view function) {
  Require(dst != nullptr && src != nullptr, ACL_ERROR_RT_PARAM_INVALID, function,
          "pointers must not be null", "null");
  Require(count > 0 && count <= dest_max, ACL_ERROR_RT_PARAM_INVALID, function,
          "count must be positive and at most destMax", count, " of ", dest_max);
  using Check = Block (*)(const void*, size_t, std::string_view, std::string_view);
  struct Row {
    Check to;
    Check from;
  };
  constexpr Row kRows[] = {{HostRange, HostRange},
                           {DeviceRange, HostRange},
                           {HostRange, DeviceRange},
                           {DeviceRange, DeviceRange},
                           {AnyRange, AnyRange}};
  Require(kind >= ACL_MEMCPY_HOST_TO_HOST && kind <= ACL_MEMCPY_DEFAULT, ACL_ERROR_RT_PARAM_INVALID,
          function, "the kind of copy must be 0 to 4", static_cast<int>(kind));
  const Row& row = kRows[kind];
  return {dst, src, count, row.to(dst, count, function, "dst"),
          row.from(src, count, function, "src")};
}

aclError Allocate(void** pointer, size_t size, MemoryKind kind, std::string_view function) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(pointer != nullptr && size > 0, ACL_ERROR_RT_PARAM_INVALID, function,
            "the pointer must not be null and the size positive", size, " bytes");
    CurrentContext(function);
    *pointer = Memory().Allocate(size, kind);
  });
}

aclError Free(void* pointer, MemoryKind kind, std::string_view function) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(Memory().Free(pointer, kind), ACL_ERROR_RT_PARAM_INVALID, function,
            "the address must be what an allocation of this kind returned, freed once", pointer);
  });
}

}  // namespace
}  // namespace opst::cann

using namespace opst::cann;  // NOLINT: only the C functions follow

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return Allocate(devPtr, size, MemoryKind::kDevice, "aclrtMalloc");
}
aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return Allocate(devPtr, size, MemoryKind::kDevice, "aclrtMallocAlign32");
}
aclError aclrtFree(void* devPtr) { return Free(devPtr, MemoryKind::kDevice, "aclrtFree"); }
aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return Allocate(hostPtr, size, MemoryKind::kHost, "aclrtMallocHost");
}
aclError aclrtFreeHost(void* hostPtr) { return Free(hostPtr, MemoryKind::kHost, "aclrtFreeHost"); }

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                     aclrtMemcpyKind kind) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID,
               [&] { CheckCopy(dst, destMax, src, count, kind, "aclrtMemcpy").Run(); });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    const Copy copy = CheckCopy(dst, destMax, src, count, kind, "aclrtMemcpyAsync");
    FindStream(stream, "aclrtMemcpyAsync")->Enqueue("aclrtMemcpyAsync", [copy] { copy.Run(); });
  });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(count <= maxCount, ACL_ERROR_RT_PARAM_INVALID, "aclrtMemset",
            "count must be at most maxCount", count, " of ", maxCount);
    const Block block = AnyRange(devPtr, count, "aclrtMemset", "devPtr");
    std::memset(devPtr, value, count);
  });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(count <= maxCount, ACL_ERROR_RT_PARAM_INVALID, "aclrtMemsetAsync",
            "count must be at most maxCount", count, " of ", maxCount);
    const Block block = DeviceRange(devPtr, count, "aclrtMemsetAsync", "devPtr");
    FindStream(stream, "aclrtMemsetAsync")->Enqueue("aclrtMemsetAsync", [=, keep = block] {
      std::memset(devPtr, value, count);
    });
  });
}

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(free != nullptr && total != nullptr, ACL_ERROR_RT_PARAM_INVALID, "aclrtGetMemInfo",
            "pointers must not be null", "null");
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    *free = page * static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES));
    *total = page * static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  });
}
