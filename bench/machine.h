// What a benchmark file says about the machine and the build that made it; nothing is measured.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_MACHINE_H_
#define OPST_BENCH_MACHINE_H_

#include <cstddef>
#include <string>

#include "opst/context.h"

namespace opst::bench {

struct BuildFacts {
  std::string version;
  std::string commit;  // checked out when the build was configured; "" = unknown
  std::string target;  // of the kernels: auto, native, …
};
BuildFacts GetBuildFacts();

struct Machine {
  std::string cpu;  // "" = unknown
  std::string isa;  // that the kernels use
  int threads = 0;
  size_t l1d_bytes = 0;  // caches that one CPU reaches; 0 = unknown
  size_t l2_bytes = 0;
  size_t l3_bytes = 0;
  size_t memory_bytes = 0;
  std::string system;    // "Linux 6.1.0 x86_64"
  std::string compiler;  // "gcc 12.2.0"
  std::string date;      // UTC, "2026-01-31T12:00:00Z"
  BuildFacts build;
};

// Also chooses the instruction set of the process by the context's setting `isa`, as every operator
// does before its first kernel.
Machine DescribeMachine(const Context& context);

// "AMD EPYC 7R13, avx2, 2 threads"
std::string Line(const Machine& machine);

}  // namespace opst::bench

#endif  // OPST_BENCH_MACHINE_H_
