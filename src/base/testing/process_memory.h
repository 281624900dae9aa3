// What this process has in memory, as the kernel counts it; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_TESTING_PROCESS_MEMORY_H_
#define OPST_BASE_TESTING_PROCESS_MEMORY_H_

#include <cstdint>
#include <fstream>
#include <string>

namespace opst {

// Memory of a process under a sanitizer says nothing about the library.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMeasuresMemory = false;
#else
inline constexpr bool kMeasuresMemory = true;
#endif

// "VmHWM" (the most ever resident) or "VmRSS" (resident now) of this process; 0 = unknown.
inline int64_t MemoryBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

// Sets VmHWM to VmRSS; whether that worked.
inline bool ResetPeak() {
  std::ofstream("/proc/self/clear_refs") << 5 << std::flush;
  return MemoryBytes("VmHWM") > 0 && MemoryBytes("VmHWM") <= MemoryBytes("VmRSS") + (1 << 20);
}

}  // namespace opst

#endif  // OPST_BASE_TESTING_PROCESS_MEMORY_H_
