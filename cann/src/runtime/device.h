// Devices and contexts: numbers that keep apart what belongs to which rank of a program.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_RUNTIME_DEVICE_H_
#define OPST_CANN_RUNTIME_DEVICE_H_

#include <cstdint>
#include <string_view>

#include "cann/src/runtime/stream.h"
#include "opst/context.h"

namespace opst::cann {

// As many as one server of the programs for CANN has; all of them are this CPU.
constexpr int32_t kNumDevices = 16;

struct DeviceContext {
  explicit DeviceContext(int32_t id) : device(id) {}
  int32_t device;
  Stream default_stream;
};

// The calling thread's context; throws Failure when it has none.
std::shared_ptr<DeviceContext> CurrentContext(std::string_view function);

// Workers and log of all operators of the process; made when first needed.
const Context& OperatorContext();

}  // namespace opst::cann

#endif  // OPST_CANN_RUNTIME_DEVICE_H_
