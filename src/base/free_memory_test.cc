// Free memory of systems with and without control groups.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/free_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/testing/errors.h"
#include "base/testing/fake_system.h"
#include "opst/error.h"

namespace opst {
namespace {

TEST(FreeMemoryTest, KernelSaysWhatIsAvailable) {
  const FakeSystem system;
  system.Write("/proc/meminfo", "MemTotal: 64 kB\nMemFree: 8 kB\nMemAvailable:   32 kB");
  EXPECT_EQ(FreeMemoryBytes(system.root()), 32u << 10);
}

TEST(FreeMemoryTest, GroupLimitCountsAndItsFilePagesCanGo) {
  const FakeSystem system;
  system.Write("/proc/meminfo", "MemAvailable: 1024 kB");
  system.Write("/sys/fs/cgroup/memory.max", "100000");
  system.Write("/sys/fs/cgroup/memory.current", "70000");
  system.Write("/sys/fs/cgroup/memory.stat", "anon 50000\ninactive_file 20000");
  EXPECT_EQ(FreeMemoryBytes(system.root()), 50000u);
  system.Write("/sys/fs/cgroup/memory.max", "max");
  EXPECT_EQ(FreeMemoryBytes(system.root()), 1024u << 10);
}

TEST(FreeMemoryTest, OldGroupsCountToo) {
  const FakeSystem system;
  system.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "100000");
  system.Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "130000");
  EXPECT_EQ(FreeMemoryBytes(system.root()), 0u);
}

TEST(FreeMemoryTest, TheTightestGroupOnTheWayUpCounts) {
  const FakeSystem system;
  system.Write("/proc/meminfo", "MemAvailable: 1024 kB");
  system.Write("/proc/self/cgroup", "0::/batch/job/step");
  const auto group = [&](const std::string& name, const std::string& limit) {
    system.Write("/sys/fs/cgroup" + name + "/memory.max", limit);
    system.Write("/sys/fs/cgroup" + name + "/memory.current", "100000");
  };
  group("/batch/job/step", "900000");
  group("/batch/job", "400000");
  group("/batch", "max");
  group("/other", "1");
  EXPECT_EQ(FreeMemoryBytes(system.root()), 300000u);
  system.Write("/proc/self/cgroup", "0::/batch");
  EXPECT_EQ(FreeMemoryBytes(system.root()), 1024u << 10);
}

TEST(FreeMemoryTest, AnOldGroupBelowItsMountPointCounts) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "9:cpu,cpuacct:/\n5:memory:/slurm/job_7\n0::/");
  system.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  system.Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "500000");
  system.Write("/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "200000");
  system.Write("/sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "120000");
  system.Write("/sys/fs/cgroup/memory/slurm/job_7/memory.stat", "total_inactive_file 20000");
  EXPECT_EQ(FreeMemoryBytes(system.root()), 100000u);
  // The same group, mounted elsewhere.
  system.Write("/proc/self/mountinfo",
               "31 30 0:29 /slurm/job_7 /mnt/memory ro - cgroup cgroup rw,memory");
  system.Write("/mnt/memory/memory.limit_in_bytes", "90000");
  system.Write("/mnt/memory/memory.usage_in_bytes", "50000");
  EXPECT_EQ(FreeMemoryBytes(system.root()), 40000u);
}

TEST(FreeMemoryTest, NothingKnownIsNoLimit) {
  const FakeSystem system;
  EXPECT_EQ(FreeMemoryBytes(system.root()), SIZE_MAX);
}

TEST(FreeMemoryTest, TooMuchIsRefusedWithBothSizes) {
  const FakeSystem system;
  system.Write("/proc/meminfo", "MemAvailable: 2048 kB");
  RequireFreeMemory("bench", "the layer", 2 << 20, "take less", system.root());
  const auto require_more = [&] {
    RequireFreeMemory("bench", "the layer", 3 << 20, "take less", system.root());
  };
  EXPECT_EQ(ErrorOf(ErrorKind::kOutOfMemory, require_more),
            "[bench] the layer must fit the free memory; take less; got 3 MB needed, 2 MB free");
}

TEST(FreeMemoryTest, ThisProcessHasAPeak) { EXPECT_GT(PeakResidentBytes(), 1u << 20); }

}  // namespace
}  // namespace opst
