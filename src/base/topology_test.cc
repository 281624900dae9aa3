// Tests of the number of workers on machines that exist only as folders.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <numeric>
#include <thread>

#include "base/testing/fake_system.h"

namespace opst {
namespace {

std::vector<int> FirstCpus(int count) {
  std::vector<int> cpus(static_cast<size_t>(count));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

Topology Detect(const FakeSystem& system, std::vector<int> cpus, int num_local_ranks = 1) {
  return DetectTopology(
      {.root = system.root(), .cpus = std::move(cpus), .num_local_ranks = num_local_ranks});
}

TEST(TopologyTest, SmtSiblingsOfTwoSocketsCountOnce) {
  const FakeSystem system;
  system.WriteCores(48, 2);
  const Topology topology = Detect(system, FirstCpus(96));
  EXPECT_EQ(topology.num_cores, 48);
  EXPECT_EQ(topology.num_workers, 48);
  EXPECT_EQ(topology.explanation, "48 workers (48 physical cores of 96 CPUs in the affinity mask)");
}

TEST(TopologyTest, OlderKernelsNameOfTheSiblingsFileWorks) {
  const FakeSystem system;
  system.WriteCores(4, 2, "thread_siblings_list");
  EXPECT_EQ(Detect(system, FirstCpus(8)).num_workers, 4);
}

TEST(TopologyTest, MaskOfOnlyTheSecondSiblingsCountsTheirCores) {
  const FakeSystem system;
  system.WriteCores(4, 2);
  EXPECT_EQ(Detect(system, {4, 5, 6}).num_workers, 3);
  EXPECT_EQ(Detect(system, {0, 4}).num_workers, 1);
}

TEST(TopologyTest, OneCpuInTheMaskGivesOneWorker) {
  const FakeSystem system;
  system.WriteCores(48, 2);
  const Topology topology = Detect(system, {7});
  EXPECT_EQ(topology.num_workers, 1);
  EXPECT_EQ(topology.explanation, "1 worker (1 physical core of 1 CPU in the affinity mask)");
}

TEST(TopologyTest, WithoutFilesEveryCpuOfTheMaskIsACore) {
  const FakeSystem system;
  const Topology topology = Detect(system, FirstCpus(6));
  EXPECT_EQ(topology.num_workers, 6);
  EXPECT_FALSE(topology.quota.has_value());
  EXPECT_EQ(topology.l2_bytes, 0u);
  EXPECT_EQ(topology.cpu_model, "");
}

TEST(TopologyTest, QuotaBoundsTheWorkers) {
  const FakeSystem system;
  system.WriteCores(8, 2);
  system.Write("/proc/self/cgroup", "0::/");
  system.Write("/sys/fs/cgroup/cpu.max", "200000 100000");
  const Topology topology = Detect(system, FirstCpus(16));
  EXPECT_EQ(topology.num_workers, 2);
  EXPECT_EQ(topology.explanation,
            "2 workers (8 physical cores of 16 CPUs in the affinity mask; cgroup quota 2.00)");
}

TEST(TopologyTest, QuotaIsRoundedDownButNeverBelowOne) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "0::/");
  system.Write("/sys/fs/cgroup/cpu.max", "150000 100000");
  EXPECT_EQ(Detect(system, FirstCpus(4)).num_workers, 1);
  EXPECT_NE(Detect(system, FirstCpus(4)).explanation.find("cgroup quota 1.50"), std::string::npos);
  system.Write("/sys/fs/cgroup/cpu.max", "5000 100000");
  EXPECT_EQ(Detect(system, FirstCpus(4)).num_workers, 1);
  EXPECT_NE(Detect(system, FirstCpus(4)).explanation.find("cgroup quota 0.05"), std::string::npos);
}

TEST(TopologyTest, LocalRanksShareTheCores) {
  const FakeSystem system;
  EXPECT_EQ(Detect(system, FirstCpus(8), 4).num_workers, 2);
  EXPECT_EQ(Detect(system, FirstCpus(8), 3).num_workers, 2);
  EXPECT_EQ(Detect(system, FirstCpus(8), 1).num_workers, 8);
  EXPECT_EQ(Detect(system, FirstCpus(8), 20).num_workers, 1);
  EXPECT_EQ(Detect(system, FirstCpus(8), 4).explanation,
            "2 workers (8 physical cores of 8 CPUs in the affinity mask; 4 local ranks)");
}

TEST(TopologyTest, LocalRanksShareTheQuota) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "0::/");
  system.Write("/sys/fs/cgroup/cpu.max", "600000 100000");
  EXPECT_EQ(Detect(system, FirstCpus(32), 2).num_workers, 3);
}

TEST(TopologyTest, CoresTheLauncherDealtOutAreNotDividedAgain) {
  const FakeSystem system;
  system.Write("/proc/self/status", "Name:\tbench\nPPid:\t41");
  system.Write("/proc/41/status", "Name:\tmpirun\nCpus_allowed_list:\t0-7");
  // Bound to two cores each, or four ranks to the four cores of their socket.
  EXPECT_EQ(Detect(system, {2, 3}, 4).num_workers, 2);
  EXPECT_EQ(Detect(system, FirstCpus(4), 4).num_workers, 2);
  EXPECT_EQ(
      Detect(system, {5}, 1).explanation,
      "1 worker (1 physical core of 1 CPU in the affinity mask; the process that started this "
      "one has 8 cores)");
}

TEST(TopologyTest, LauncherVariablesGiveTheLocalRanks) {
  constexpr const char* kNames[] = {"LOCAL_WORLD_SIZE", "PMI_LOCAL_SIZE",
                                    "MV2_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE"};
  for (const char* name : kNames) unsetenv(name);
  EXPECT_EQ(LocalRanksOfLauncher(), 1);
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  EXPECT_EQ(LocalRanksOfLauncher(), 2);
  setenv("MPI_LOCALNRANKS", "3", 1);
  EXPECT_EQ(LocalRanksOfLauncher(), 3);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
  EXPECT_EQ(LocalRanksOfLauncher(), 4);
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "none", 1);
  EXPECT_EQ(LocalRanksOfLauncher(), 3);
  for (const char* name : kNames) unsetenv(name);
}

TEST(TopologyTest, CachesAndModelOfTheFirstCpu) {
  const FakeSystem system;
  const std::string folder = "/sys/devices/system/cpu/cpu3/cache/";
  const char* levels[] = {"1", "1", "2", "3"};
  const char* types[] = {"Data", "Instruction", "Unified", "Unified"};
  const char* sizes[] = {"48K", "32K", "2048K", "307200K"};
  for (int i = 0; i < 4; ++i) {
    const std::string index = folder + "index" + std::to_string(i) + "/";
    system.Write(index + "level", levels[i]);
    system.Write(index + "type", types[i]);
    system.Write(index + "size", sizes[i]);
  }
  system.Write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.0 GHz\n");
  const Topology topology = Detect(system, {3});
  EXPECT_EQ(topology.l1d_bytes, size_t{48} << 10);
  EXPECT_EQ(topology.l2_bytes, size_t{2} << 20);
  EXPECT_EQ(topology.l3_bytes, size_t{300} << 20);
  EXPECT_EQ(topology.cpu_model, "Some CPU @ 2.0 GHz");
}

TEST(TopologyTest, ArmModelIsMadeOfNumbers) {
  const FakeSystem system;
  system.Write("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
  EXPECT_EQ(Detect(system, {0}).cpu_model, "implementer 0x41 part 0xd40");
}

TEST(TopologyTest, CpuListsOfTheKernel) {
  EXPECT_EQ(ParseCpuList("0-2,8\n"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(ParseCpuList("5,1,1-2"), (std::vector<int>{1, 2, 5}));
  for (const char* text : {"", "a", "3-1", "1-", "-1", "0-99999999", "1,,2"}) {
    EXPECT_TRUE(ParseCpuList(text).empty()) << text;
  }
}

TEST(TopologyTest, AThreadBoundToOneCpuGetsOneWorkerOnThisMachine) {
  std::thread([] {
    const int cpu = sched_getcpu();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
    const Topology topology = DetectTopology();
    EXPECT_EQ(topology.cpus, std::vector<int>{cpu});
    EXPECT_EQ(topology.num_workers, 1);
  }).join();
}

TEST(TopologyTest, ThisMachineHasAtLeastOneWorker) {
  const Topology topology = DetectTopology();
  EXPECT_GE(topology.num_workers, 1);
  EXPECT_LE(topology.num_workers, static_cast<int>(topology.cpus.size()));
}

}  // namespace
}  // namespace opst
