// Asks the topology, uname and the compiler's macros.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <ctime>

#include "base/check.h"
#include "base/config.h"
#include "base/topology.h"
#include "kernels/isa.h"

namespace opst::bench {
namespace {

std::string SystemName() {
  utsname names;
  if (uname(&names) != 0) return "";
  return Concat(names.sysname, " ", names.release, " ", names.machine);
}

std::string CompilerName() {
#if defined(__clang__)
  return Concat("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#else
  return Concat("gcc ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#endif
}

std::string Now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts;
  if (gmtime_r(&seconds, &parts) == nullptr) return "";
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text.data(), length);
}

size_t MemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page_bytes)
                                     : 0;
}

}  // namespace

Machine DescribeMachine(const Context& context) {
  RequireIsa(context.config().GetChoice("isa"));
  const Topology topology = DetectTopology();
  return {.cpu = topology.cpu_model,
          .isa = CurrentIsa(),
          .threads = context.num_threads(),
          .l1d_bytes = topology.l1d_bytes,
          .l2_bytes = topology.l2_bytes,
          .l3_bytes = topology.l3_bytes,
          .memory_bytes = MemoryBytes(),
          .system = SystemName(),
          .compiler = CompilerName(),
          .date = Now(),
          .build = GetBuildFacts()};
}

std::string Line(const Machine& machine) {
  return Concat(machine.cpu.empty() ? "unknown CPU" : machine.cpu, ", ", machine.isa, ", ",
                machine.threads, machine.threads == 1 ? " thread" : " threads");
}

}  // namespace opst::bench
