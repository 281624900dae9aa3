// The names of enum values, and the version: what needs no handle.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "capi/call.h"
#include "opst/version.h"

using opst::capi::Call;

namespace {

// The names are literals, so they end with a NUL and live for ever.
template <typename Enum>
opst_status NameOf(const char* function, int32_t value, const char** name) {
  return opst::capi::Make(function, name, [&](const Call& call) {
    *name = Name(call.Choice<Enum>(value, "value")).data();
  });
}

}  // namespace

namespace opst {
// So that every enum is named by a function of one name.
static std::string_view Name(StopReason reason) { return StopReasonName(reason); }
}  // namespace opst

const char* opst_version() { return opst::LibraryVersion(); }

const char* opst_status_name(opst_status status) {
  switch (status) {
    case OPST_OK:
      return "ok";
    case OPST_INVALID_ARGUMENT:
      return "invalid argument";
    case OPST_IO:
      return "io";
    case OPST_OUT_OF_MEMORY:
      return "out of memory";
    case OPST_COMM:
      return "communication";
    case OPST_CANCELLED:
      return "cancelled";
    case OPST_INTERNAL:
      return "internal";
  }
  return "unknown";
}

opst_status opst_dtype_name(opst_dtype dtype, const char** name) {
  return NameOf<opst::DType>(__func__, dtype, name);
}

opst_status opst_dtype_size(opst_dtype dtype, size_t* num_bytes) {
  return opst::capi::Make(__func__, num_bytes, [&](const Call& call) {
    *num_bytes = opst::ByteSize(call.Choice<opst::DType>(dtype, "dtype"));
  });
}

opst_status opst_log_level_name(opst_log_level level, const char** name) {
  return NameOf<opst::LogLevel>(__func__, level, name);
}

opst_status opst_weight_format_name(opst_weight_format format, const char** name) {
  return NameOf<opst::WeightFormat>(__func__, format, name);
}

opst_status opst_stop_reason_name(opst_stop_reason reason, const char** name) {
  return NameOf<opst::StopReason>(__func__, reason, name);
}
