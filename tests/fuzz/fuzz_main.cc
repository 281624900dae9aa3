// Entry of libFuzzer; built once per target, whose name is OPST_FUZZ_TARGET.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/testing/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  opst::fuzz::OPST_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
