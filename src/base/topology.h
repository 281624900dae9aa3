// What this process may use of the machine: cores, quota, caches; it starts and pins nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_TOPOLOGY_H_
#define OPST_BASE_TOPOLOGY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace opst {

struct TopologyOptions {
  std::string root;         // stands before /proc and /sys: "" or a folder with fake ones
  std::vector<int> cpus;    // affinity mask; empty = that of the calling thread
  int num_local_ranks = 0;  // processes that share the machine; 0 = LocalRanksOfLauncher()
};

struct Topology {
  std::vector<int> cpus;        // affinity mask
  int num_cores = 0;            // physical cores among them: SMT siblings count once
  std::optional<double> quota;  // CPUs allowed by cgroups, shared by all local ranks
  int num_local_ranks = 1;
  int num_workers = 1;      // what a pool should have, the calling thread included
  std::string explanation;  // "2 workers (2 physical cores of 4 CPUs in the affinity mask)"
  size_t l1d_bytes = 0;     // caches that one of the CPUs reaches; 0 = unknown
  size_t l2_bytes = 0;
  size_t l3_bytes = 0;
  std::string cpu_model;  // "" = unknown
};

// Never throws for what it cannot read: a missing file means that nothing is known, so every CPU of
// the mask is a core and there is no quota.
//
// num_workers = max(1, floor(min(c, s / n, quota / n))), n = local ranks, c = physical cores in the
// mask, s = physical cores in the mask of the parent process (the MPI launcher) when they are more
// (then it has bound this rank, maybe to cores of its own), else c.
Topology DetectTopology(const TopologyOptions& options = {});

// Processes on this machine as told by MPI launchers (OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS,
// MV2_COMM_WORLD_LOCAL_SIZE, PMI_LOCAL_SIZE) or torchrun (LOCAL_WORLD_SIZE); else 1.
int LocalRanksOfLauncher();

// "0-3,8" as in the kernel's files; a malformed list gives none.
std::vector<int> ParseCpuList(const std::string& text);

}  // namespace opst

#endif  // OPST_BASE_TOPOLOGY_H_
