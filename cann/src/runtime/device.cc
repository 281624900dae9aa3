// Initialisation, devices and contexts of the acl interface.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/runtime/device.h"

#include <array>
#include <atomic>
#include <string>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "cann/src/communication/group.h"
#include "cann/src/runtime/failure.h"
#include "cann/src/runtime/handles.h"
#include "cann/src/runtime/log.h"

namespace opst::cann {
namespace {

using Contexts = Handles<DeviceContext>;

std::atomic<bool> g_is_initialised{false};
std::mutex g_primary_mutex;
std::array<aclrtContext, kNumDevices> g_primary{};  // of each device, once it was set

thread_local aclrtContext t_current = nullptr;

void CheckDevice(int32_t device, std::string_view function) {
  Require(device >= 0 && device < kNumDevices, ACL_ERROR_RT_INVALID_DEVICEID, function,
          Concat("the device must be 0 to ", kNumDevices - 1), device);
}

// The context that aclrtSetDevice makes current, made when there is none.
aclrtContext PrimaryContext(int32_t device) {
  const std::lock_guard<std::mutex> lock(g_primary_mutex);
  aclrtContext& primary = g_primary[static_cast<size_t>(device)];
  if (Contexts::OfProcess().Find(primary) == nullptr) primary = Contexts::OfProcess().Make(device);
  return primary;
}

void ForwardToLog(LogLevel level, std::string_view line) {
  constexpr std::array<aclLogLevel, 4> kLevels = {ACL_ERROR, ACL_WARNING, ACL_INFO, ACL_DEBUG};
  Log(kLevels[static_cast<size_t>(level)], line);
}

}  // namespace

std::shared_ptr<DeviceContext> CurrentContext(std::string_view function) {
  auto context = Contexts::OfProcess().Find(t_current);
  Require(context != nullptr, ACL_ERROR_RT_CONTEXT_NULL, function,
          "the thread needs a device (aclrtSetDevice) or a context", "none");
  return context;
}

const Context& OperatorContext() {
  static const auto* const context = new Context({.log_sink = ForwardToLog});
  return *context;
}

}  // namespace opst::cann

using namespace opst::cann;  // NOLINT: the C functions below are this file's only other content

aclError aclInit(const char*) {
  return Guard(ACL_ERROR_INVALID_PARAM, [] {
    Require(!g_is_initialised.exchange(true), ACL_ERROR_REPEAT_INITIALIZE, "aclInit",
            "it must be called once before aclFinalize", "a second call");
    ReadLogSettings();
  });
}

aclError aclFinalize() {
  return Guard(ACL_ERROR_INVALID_PARAM, [] {
    Require(g_is_initialised.exchange(false), ACL_ERROR_UNINITIALIZE, "aclFinalize",
            "aclInit must have been called", "no such call");
    AbandonGroups();  // nobody waits any longer for a rank that will not come
    Handles<Stream>::OfProcess().Clear();
    Contexts::OfProcess().Clear();
  });
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  return Guard(ACL_ERROR_INVALID_PARAM, [&] {
    Require(majorVersion != nullptr && minorVersion != nullptr && patchVersion != nullptr,
            ACL_ERROR_INVALID_PARAM, "aclrtGetVersion", "pointers must not be null", "null");
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
  });
}

aclnnStatus aclnnInit(const char*) { return ACLNN_SUCCESS; }
aclnnStatus aclnnFinalize() { return ACLNN_SUCCESS; }

aclError aclrtSetDevice(int32_t deviceId) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    CheckDevice(deviceId, "aclrtSetDevice");
    t_current = PrimaryContext(deviceId);
  });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    CheckDevice(deviceId, "aclrtResetDevice");
    const std::lock_guard<std::mutex> lock(g_primary_mutex);
    Contexts::OfProcess().Remove(g_primary[static_cast<size_t>(deviceId)]);
  });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(deviceId != nullptr, ACL_ERROR_RT_PARAM_INVALID, "aclrtGetDevice",
            "deviceId must not be null", "null");
    *deviceId = CurrentContext("aclrtGetDevice")->device;
  });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(count != nullptr, ACL_ERROR_RT_PARAM_INVALID, "aclrtGetDeviceCount",
            "count must not be null", "null");
    *count = kNumDevices;
  });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(runMode != nullptr, ACL_ERROR_RT_PARAM_INVALID, "aclrtGetRunMode",
            "runMode must not be null", "null");
    *runMode = ACL_HOST;
  });
}

const char* aclrtGetSocName() { return "cpu"; }

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(context != nullptr, ACL_ERROR_RT_PARAM_INVALID, "aclrtCreateContext",
            "context must not be null", "null");
    CheckDevice(deviceId, "aclrtCreateContext");
    *context = Contexts::OfProcess().Make(deviceId);
    t_current = *context;
  });
}

aclError aclrtDestroyContext(aclrtContext context) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(Contexts::OfProcess().Remove(context) != nullptr, ACL_ERROR_RT_CONTEXT_NULL,
            "aclrtDestroyContext", "the context must be live", context);
  });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(Contexts::OfProcess().Find(context) != nullptr, ACL_ERROR_RT_CONTEXT_NULL,
            "aclrtSetCurrentContext", "the context must be live", context);
    t_current = context;
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(context != nullptr, ACL_ERROR_RT_PARAM_INVALID, "aclrtGetCurrentContext",
            "context must not be null", "null");
    CurrentContext("aclrtGetCurrentContext");
    *context = t_current;
  });
}
