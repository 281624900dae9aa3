// Streams and events of the acl interface.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "acl/acl_rt.h"
#include "cann/src/runtime/device.h"
#include "cann/src/runtime/failure.h"
#include "cann/src/runtime/handles.h"
#include "cann/src/runtime/stream.h"

namespace opst::cann {
namespace {

std::shared_ptr<Event> FindEvent(aclrtEvent handle, std::string_view function) {
  auto event = Handles<Event>::OfProcess().Find(handle);
  Require(event != nullptr, ACL_ERROR_RT_PARAM_INVALID, function, "the event must be live", handle);
  return event;
}

aclError CreateStream(aclrtStream* stream, std::string_view function) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(stream != nullptr, ACL_ERROR_RT_PARAM_INVALID, function, "stream must not be null",
            "null");
    CurrentContext(function);
    *stream = Handles<Stream>::OfProcess().Make();
  });
}

aclError DestroyStream(aclrtStream stream, std::string_view function) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(Handles<Stream>::OfProcess().Remove(stream) != nullptr, ACL_ERROR_RT_PARAM_INVALID,
            function, "the stream must be live", stream);
  });
}

aclError CreateEvent(aclrtEvent* event, std::string_view function) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(event != nullptr, ACL_ERROR_RT_PARAM_INVALID, function, "event must not be null",
            "null");
    *event = Handles<Event>::OfProcess().Make();
  });
}

}  // namespace

std::shared_ptr<Stream> FindStream(aclrtStream handle, std::string_view function) {
  if (handle == nullptr) {
    auto context = CurrentContext(function);
    return {context, &context->default_stream};
  }
  auto stream = Handles<Stream>::OfProcess().Find(handle);
  Require(stream != nullptr, ACL_ERROR_RT_PARAM_INVALID, function, "the stream must be live",
          handle);
  return stream;
}

}  // namespace opst::cann

using namespace opst::cann;  // NOLINT: only the C functions follow

aclError aclrtCreateStream(aclrtStream* stream) {
  return CreateStream(stream, "aclrtCreateStream");
}
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  return CreateStream(stream, "aclrtCreateStreamWithConfig");
}
aclError aclrtDestroyStream(aclrtStream stream) {
  return DestroyStream(stream, "aclrtDestroyStream");
}
aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return DestroyStream(stream, "aclrtDestroyStreamForce");
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return aclrtSynchronizeStreamWithTimeout(stream, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  int code = ACL_SUCCESS;
  const int found = Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    code = FindStream(stream, "aclrtSynchronizeStream")->Synchronize(timeout);
  });
  return found == ACL_SUCCESS ? code : found;
}

aclError aclrtSynchronizeDevice() {
  int first = ACL_SUCCESS;
  for (const auto& stream : Handles<Stream>::OfProcess().All()) {
    const int code = stream->Synchronize(-1);
    if (first == ACL_SUCCESS) first = code;
  }
  return first;
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(status != nullptr, ACL_ERROR_RT_PARAM_INVALID, "aclrtStreamQuery",
            "status must not be null", "null");
    *status = FindStream(stream, "aclrtStreamQuery")->is_idle() ? ACL_STREAM_STATUS_COMPLETE
                                                                : ACL_STREAM_STATUS_NOT_READY;
  });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    const auto found = FindEvent(event, "aclrtStreamWaitEvent");
    FindStream(stream, "aclrtStreamWaitEvent")
        ->Enqueue("aclrtStreamWaitEvent",
                  [found, recording = found->last_recording()] { found->Wait(recording, -1); });
  });
}

aclError aclrtCreateEvent(aclrtEvent* event) { return CreateEvent(event, "aclrtCreateEvent"); }
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) {
  return CreateEvent(event, "aclrtCreateEventWithFlag");
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(Handles<Event>::OfProcess().Remove(event) != nullptr, ACL_ERROR_RT_PARAM_INVALID,
            "aclrtDestroyEvent", "the event must be live", event);
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    const auto found = FindEvent(event, "aclrtRecordEvent");
    const auto queue = FindStream(stream, "aclrtRecordEvent");
    queue->Enqueue(
        "aclrtRecordEvent", [found, recording = found->Record()] { found->Complete(recording); },
        AfterError::kRuns);
  });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    const auto found = FindEvent(event, "aclrtResetEvent");
    FindStream(stream, "aclrtResetEvent")
        ->Enqueue(
            "aclrtResetEvent", [found] { found->Reset(); }, AfterError::kRuns);
  });
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(status != nullptr, ACL_ERROR_RT_PARAM_INVALID, "aclrtQueryEvent",
            "status must not be null", "null");
    *status = FindEvent(event, "aclrtQueryEvent")->is_complete() ? ACL_EVENT_STATUS_COMPLETE
                                                                 : ACL_EVENT_STATUS_NOT_READY;
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    Require(status != nullptr, ACL_ERROR_RT_PARAM_INVALID, "aclrtQueryEventStatus",
            "status must not be null", "null");
    *status = FindEvent(event, "aclrtQueryEventStatus")->is_complete()
                  ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                  : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return aclrtSynchronizeEventWithTimeout(event, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    const auto found = FindEvent(event, "aclrtSynchronizeEvent");
    Require(found->Wait(found->last_recording(), timeout), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
            "aclrtSynchronizeEventWithTimeout", "the event must come in time", timeout, " ms");
  });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return Guard(ACL_ERROR_RT_PARAM_INVALID, [&] {
    const auto start = FindEvent(startEvent, "aclrtEventElapsedTime");
    const auto end = FindEvent(endEvent, "aclrtEventElapsedTime");
    Require(ms != nullptr && start->last_recording() > 0 && end->last_recording() > 0 &&
                start->is_complete() && end->is_complete(),
            ACL_ERROR_RT_PARAM_INVALID, "aclrtEventElapsedTime",
            "both events must be recorded and complete", "an event that is not");
    using Milliseconds = std::chrono::duration<float, std::milli>;
    *ms = Milliseconds(end->completed_at() - start->completed_at()).count();
  });
}
